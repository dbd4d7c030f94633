"""How an engine is started, probed, and stopped. Knows neither the router nor the gateway."""
