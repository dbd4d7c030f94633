"""What `tierwise distill` does, a module for each sub-verb."""
