"""Drafts: what guesses a target's next tokens, how often it is right, and what a guess costs."""
