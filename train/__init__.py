"""Post-training. May import serving's engines, registry and ledger records; nothing of serving may import it."""
