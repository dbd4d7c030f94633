"""One adapter per protocol: body → `RequestView`, and the upstream body and events back."""
