"""Long documents, and several at once: found, counted, compared. All texts are generated, to any length."""
