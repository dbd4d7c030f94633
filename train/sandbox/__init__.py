"""Runs code that nobody trusts, where it can neither see nor touch anything but a directory of its own."""
