"""The sub-verbs of `tierwise train`."""
