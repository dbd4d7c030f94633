"""Published checkpoints: manifests, files, aliases. The contract between training and serving."""
