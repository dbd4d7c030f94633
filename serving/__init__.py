"""The gateway and the engines: serves tiers behind one OpenAI-compatible endpoint."""
