"""Which parts of a model can go, by what their going costs as it was measured."""
