"""How answers are judged: strict parsing, symbolic equality, and worker processes that can be killed."""
