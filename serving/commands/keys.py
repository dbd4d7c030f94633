"""`tierwise keys`: make, list and revoke the API keys of a gateway, also while it runs."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime

from rich.console import Console
from rich.table import Table

from serving.commands.options import add_settings_options, add_sub_verb, settings_from
from serving.gateway.keys import KeyStore, KeyStoreError
from serving.settings_sources import SettingsError

ABOUT = """\
API keys for /v1, and admin keys for /admin. A gateway asks for an API key where [gateway] require_key is on, and always
on a host that is not loopback. Changing anything of a running gateway takes an admin key, always.
Keys lie in <home>/keys.json as keyed hashes: a key is shown once, when it is made. A running gateway takes a new key,
and refuses a revoked one, within a second.
"""

EXAMPLES = {
    "": """\
examples:
  tierwise keys create my-app                 make a key and print it
  tierwise keys create ops --admin            make a key for `tierwise budget set`
  tierwise keys list                          the names, and since when
  tierwise keys revoke my-app                 refuse it from now on
""",
    "create": """\
examples:
  tierwise keys create my-app
  export OPENAI_API_KEY=$(tierwise keys create my-app)
  curl http://127.0.0.1:8000/v1/models -H "authorization: Bearer $OPENAI_API_KEY"
  export TIERWISE_ADMIN_KEY=$(tierwise keys create ops --admin)
""",
    "list": "examples:\n  tierwise keys list\n  tierwise keys list --json | jq -r '.[].name'\n",
    "revoke": "example:\n  tierwise keys revoke my-app\n",
}


def main(argv: list[str]) -> int:
    """Run `tierwise keys argv…`. 0 done, 1 failed, 2 for wrong use."""
    args = parser().parse_args(argv)
    try:
        return int(args.run(args, KeyStore(settings_from(args).home / "keys.json")))
    except (KeyStoreError, SettingsError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The verb's parser, with a sub-verb's function in `run`."""
    made = argparse.ArgumentParser(
        prog="tierwise keys",
        description=ABOUT,
        epilog=EXAMPLES[""],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = made.add_subparsers(metavar="SUB-VERB", required=True)
    add = _sub_verb(verbs, "create", "make a key and print it, this once")
    add.add_argument("name", metavar="NAME", help="whose it is; named in logs and in the ledger")
    add.add_argument("--admin", action="store_true", help="a key that administers, and opens nothing of /v1")
    add.set_defaults(run=create)
    add = _sub_verb(verbs, "list", "list the keys by name")
    add.add_argument("--json", action="store_true", help="print JSON, for machines")
    add.set_defaults(run=list_keys)
    add = _sub_verb(verbs, "revoke", "revoke a key")
    add.add_argument("name", metavar="NAME")
    add.set_defaults(run=revoke)
    return made


def create(args: argparse.Namespace, store: KeyStore) -> int:
    """Make a key. It alone goes to standard output, so that a shell can capture it."""
    key = store.create(args.name, is_admin=args.admin)
    print(key)
    print(f"The key of {args.name!r}: keep it now, it is not shown again.", file=sys.stderr)
    return 0


def list_keys(args: argparse.Namespace, store: KeyStore) -> int:
    """List the keys, without anything of them."""
    records = store.records()
    if args.json:
        shown = [
            {"name": record.name, "created_at": record.created_at, "is_admin": record.is_admin}
            for record in records
        ]
        print(json.dumps(shown))
        return 0
    if not records:
        print("no keys; make one with `tierwise keys create NAME`", file=sys.stderr)
        return 0
    table = Table("name", "created", "opens")
    for record in records:
        created = f"{datetime.fromtimestamp(record.created_at):%Y-%m-%d %H:%M}"
        table.add_row(record.name, created, "/admin" if record.is_admin else "/v1")
    Console().print(table)
    return 0


def revoke(args: argparse.Namespace, store: KeyStore) -> int:
    """Revoke a key."""
    store.revoke(args.name)
    print(f"revoked {args.name}; a running gateway refuses it within a second")
    return 0


def _sub_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    made = add_sub_verb(verbs, name, about, examples=EXAMPLES[name])
    add_settings_options(made)
    return made
