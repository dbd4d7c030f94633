"""The policy itself: a Llama in torch, small and clear, and the ways in which a part of it is trained."""
