"""An engine's settings, searched on this machine: what pays is told from noise, and written as a tier's TOML."""
