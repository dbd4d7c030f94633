"""What drafts bring: the same prompts with and without them, in turn, compared token by token."""
