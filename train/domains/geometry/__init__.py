"""Solids: reckoned from words, compared, and built with a CAD tool. What the kernel measures decides."""
