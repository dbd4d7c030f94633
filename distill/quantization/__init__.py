"""Weights in fewer bits: written as engines read them, read back, and measured against what they were."""
