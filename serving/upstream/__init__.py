"""Connections to engines: replicas, their health, and the choice among them. Any OpenAI-compatible server will do."""
