"""Published checkpoints: manifests, files, aliases. The contract between training and serving.

`store.Store` is the way in: publish, load, list; `store.Store.aliases` moves the labels that serving follows.
"""
