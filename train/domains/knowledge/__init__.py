"""Structured knowledge: queries, graphs, families, kinds and their exceptions, facts under constraints."""
