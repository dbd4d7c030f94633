"""`tierwise serve`: start the engines of a configuration and the gateway in front of them."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import socket
import sys

import uvloop

from serving.app import Gateway
from serving.commands.options import SETTINGS_HELP, add_settings_options, settings_from
from serving.engines.base import EngineError
from serving.gateway.keys import KeyStore, KeyStoreError
from serving.ledger.database import LedgerError
from serving.registry.errors import RegistryError
from serving.server import PortError, bind, serve
from serving.settings import Settings
from serving.settings_sources import SettingsError, to_toml
from serving.telemetry.log import LogFormat, start_logging

EXAMPLES = """\
examples:
  tierwise serve                                 the tiers of ./tierwise.toml, or of the shipped configuration
  tierwise serve --port 8001 --print-config      what that resolves to, without serving
  tierwise serve --config prod.toml --set gateway.max_queue=64
"""

FAILURES = (SettingsError, RegistryError, EngineError, PortError, LedgerError, KeyStoreError)
"""What ends a start with one line that names the remedy."""


def main(argv: list[str]) -> int:
    """Run the verb; 0 after an orderly end, 1 where it could not start."""
    args = parser("tierwise serve", __doc__ or "").parse_args(argv)
    try:
        settings = settings_of(args)
        if args.print_config:
            print(to_toml(settings), end="")
            return 0
        return run(settings, args.log_format)
    except FAILURES as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1


def parser(prog: str, about: str) -> argparse.ArgumentParser:
    """The options that `serve` and `up` share."""
    made = argparse.ArgumentParser(
        prog=prog,
        description=about.split(": ", 1)[-1],
        epilog=f"{SETTINGS_HELP}\n{EXAMPLES}" if prog.endswith("serve") else SETTINGS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--host", help="address to listen on (default 127.0.0.1); a public one needs API keys")
    made.add_argument("--port", type=int, help="port to listen on (default 8000); 0 takes a free one")
    made.add_argument(
        "--print-config", action="store_true", help="print the resolved settings as TOML and end"
    )
    made.add_argument(
        "--log-format", choices=("auto", "json", "text"), default="auto", help="of standard error"
    )
    add_settings_options(made)
    return made


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings that the shared options resolve to."""
    return settings_from(args, {"gateway.host": args.host, "gateway.port": args.port})


def run(settings: Settings, log_format: LogFormat) -> int:
    """Serve until a signal comes.

    Raises:
        SettingsError: a public host without API keys.
        PortError, RegistryError, EngineError: it could not start.
    """
    keys = keys_of(settings)
    with bind(settings.gateway.host, settings.gateway.port) as listener, start_logging(log_format) as log:
        logging.getLogger("uvicorn").setLevel(
            logging.WARNING
        )  # it reports its own start and end, which we do
        logging.getLogger("gguf").setLevel(logging.WARNING)  # it tells of every file that it writes
        gateway = Gateway(settings, keys=keys, log=log, on_progress=_say)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(gateway, listener, lambda: _say(banner(gateway, listener))))
    return 0


def keys_of(settings: Settings) -> KeyStore | None:
    """The key store, where keys are asked for.

    Raises:
        SettingsError: the host is public and there is no key, so that anybody could use the engines.
    """
    is_public = not _is_loopback(settings.gateway.host)
    if not is_public and not settings.gateway.require_key:
        return None
    keys = KeyStore(settings.home / "keys.json")
    if not keys.has_any:
        why = f"{settings.gateway.host} is not loopback" if is_public else "gateway.require_key is on"
        raise SettingsError(f"{why}, and there is no API key yet: make one with `tierwise keys create NAME`")
    return keys


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def banner(gateway: Gateway, listener: socket.socket) -> str:
    """What a person sees once everything is up: the URL, a line to try, the models."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    url = f"http://{shown}:{port}"
    key = " -H 'authorization: Bearer <key>'" if gateway.needs_key else ""
    return f"""
tierwise serves on {url}/v1

  models  {", ".join(gateway.model_names)}
  try     curl {url}/v1/chat/completions -H 'content-type: application/json'{key} \\
            -d '{{"model": "auto", "max_tokens": 64, "messages": [{{"role": "user", "content": "hi"}}]}}'
  health  {url}/readyz      metrics  {url}/metrics      Ctrl-C ends it
"""


def _say(text: str) -> None:
    print(text, flush=True)
