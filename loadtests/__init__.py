"""Load on a running gateway, over HTTP alone: nothing here imports the other rooms."""
