"""Starts a script in two processes of `accelerate launch`, on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def launch(script: str | None, *arguments: object, module: str = "", timeout_s: float = 240.0) -> str:
    """Run a script, or a module, to its end in both; what they printed. It must end well."""
    environment = {
        **os.environ,
        "ACCELERATE_USE_CPU": "true",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    options = "--multi_gpu --num_processes 2 --num_machines 1 --main_process_port 0 --mixed_precision no"
    what = ["--module", module] if script is None else [script]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "accelerate.commands.launch", *options.split(), "--dynamo_backend", "no"),
            *what,
            *map(str, arguments),
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout
