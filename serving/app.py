"""One gateway process, put together: engines below, pools between, the HTTP front above. The only place that knows all."""

from __future__ import annotations
