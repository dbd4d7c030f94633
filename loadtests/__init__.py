"""Load on a running gateway, over HTTP alone, and the router timed by itself: nothing here imports serving."""
