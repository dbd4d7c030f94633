"""The verbs of `tierwise` that belong to serving; each module has `main(argv) -> exit code`."""
