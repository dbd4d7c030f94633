"""`python -m serving` is `tierwise serve`."""

from __future__ import annotations

import sys

from serving.commands.serve import main

sys.exit(main(sys.argv[1:]))
