"""Tools: typed operations on a state that a policy may act on, and that a verifier may look at."""
