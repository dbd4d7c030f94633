"""Data science: questions on generated tables, tests whose truth is known, and code that is run on hidden data."""
