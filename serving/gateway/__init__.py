"""The OpenAI-compatible front: receives a request, has it decided, relays the answer, accounts for it."""
