"""`tierwise registry`: look at published checkpoints, publish them, and move the aliases that serving follows."""

from __future__ import annotations

import argparse
import sys

from serving.commands import registry_verbs
from serving.commands.options import add_settings_options, add_sub_verb, settings_from
from serving.registry.collection import KEEP_ROLLBACKS, MIN_AGE
from serving.registry.errors import RegistryError
from serving.registry.manifest import KINDS
from serving.registry.store import Store
from serving.settings_sources import SettingsError

ABOUT = """\
Checkpoints lie in <home>/registry, each under name:version, with a manifest that says what it is, what it was made from
and which bytes it consists of. A version never changes. Aliases (full@stable) are what serving follows; they move, keep
their history, and roll back.
"""

EXAMPLES = {
    "": """\
examples:
  tierwise registry list
  tierwise registry publish ./out --name mymodel --kind policy --format gguf --licence Apache-2.0 --alias full@canary
  tierwise registry alias full@stable=mymodel:1f0c2b9d4e5a --reason "better at sums"
  tierwise registry rollback full@stable
""",
    "list": "example:\n  tierwise registry list --json | jq -r '.[].reference'\n",
    "show": "examples:\n  tierwise registry show full@stable\n  tierwise registry show mymodel:v2 --json\n",
    "publish": """\
examples:
  tierwise registry publish ./model.gguf --name mymodel --kind policy --format gguf --licence Apache-2.0
  tierwise registry publish ./adapter --name mymodel-lora --kind policy --format lora --licence MIT \\
      --parent base@stable=base --recipe recipe.json --metric arithmetic.pass_at_1=0.42 --alias full@canary
""",
    "alias": """\
examples:
  tierwise registry alias                                   every alias and where it points
  tierwise registry alias --history                         and how it came to point there
  tierwise registry alias full@stable=mymodel:v2 --reason "better at sums"
  tierwise registry alias full@stable=full@canary           what one alias means now, under another
  tierwise registry alias --remove full@canary              a rollback brings it back
""",
    "rollback": 'example:\n  tierwise registry rollback full@stable --reason "worse on long inputs"\n',
    "verify": "examples:\n  tierwise registry verify\n  tierwise registry verify full@stable --discard\n",
    "gc": "examples:\n  tierwise registry gc --dry-run\n  tierwise registry gc --keep 0\n",
}


def main(argv: list[str]) -> int:
    """Run `tierwise registry argv…`. 0 done, 1 failed or damage found, 2 for wrong use."""
    args = parser().parse_args(argv)
    try:
        return int(args.run(args, Store(settings_from(args).home / "registry")))
    except (RegistryError, SettingsError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The verb's parser, with a sub-verb's function in `run`."""
    made = argparse.ArgumentParser(
        prog="tierwise registry",
        description=ABOUT,
        epilog=EXAMPLES[""],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = made.add_subparsers(metavar="SUB-VERB", required=True)

    add = _sub_verb(verbs, "list", "list every version, with the aliases that point at it")
    add.set_defaults(run=registry_verbs.list_artifacts)

    add = _sub_verb(verbs, "show", "show one version: its manifest, files and aliases")
    add.add_argument("reference", help="name:version or an alias")
    add.set_defaults(run=registry_verbs.show)

    _add_publish(
        _sub_verb(verbs, "publish", "publish a file, or a directory's files, as one immutable version")
    )

    add = _sub_verb(verbs, "alias", "list aliases, or let one point at a version")
    add.add_argument("assignment", nargs="?", metavar="NAME@LABEL=REFERENCE", help="where it is to point")
    add.add_argument("--history", action="store_true", help="show every change")
    add.add_argument("--remove", metavar="NAME@LABEL", help="let it point nowhere")
    _add_reason(add)
    add.set_defaults(run=registry_verbs.alias)

    add = _sub_verb(verbs, "rollback", "let an alias point where it did before; twice goes two targets back")
    add.add_argument("alias", metavar="NAME@LABEL")
    _add_reason(add)
    add.set_defaults(run=registry_verbs.roll_back)

    add = _sub_verb(
        verbs, "verify", "hash every file and compare with what was published; 1 if anything is damaged"
    )
    add.add_argument("references", nargs="*", metavar="REFERENCE", help="only these; everything where absent")
    add.add_argument(
        "--discard", action="store_true", help="remove what is damaged, so that it can be published again"
    )
    add.set_defaults(run=registry_verbs.verify)

    about = "remove versions that no alias, none of its latest earlier targets, and no kept version's parents need"
    add = _sub_verb(verbs, "gc", about)
    add.add_argument("--dry-run", action="store_true", help="say what would go, and leave it")
    keep = "earlier targets that each alias keeps (%(default)s)"
    add.add_argument("--keep", type=_count, default=KEEP_ROLLBACKS, metavar="N", help=keep)
    minutes = int(MIN_AGE.total_seconds() // 60)
    age = "younger versions stay (%(default)s)"
    add.add_argument("--min-age", type=float, default=minutes, metavar="MINUTES", help=age)
    add.set_defaults(run=registry_verbs.collect)
    return made


def _sub_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    made = add_sub_verb(verbs, name, about, examples=EXAMPLES[name])
    made.add_argument("--json", action="store_true", help="print JSON, for machines")
    add_settings_options(made)
    return made


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a count; write 0, 1, 2, …")
    return int(text)


def _add_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="for whoever reads the history")


def _add_publish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="PATH", help="a file, or a directory whose files are the artifact")
    said = parser.add_argument_group("manifest", "what is said about it")
    said.add_argument("--name", required=True, help="lower case, for example mymodel")
    said.add_argument("--kind", required=True, choices=KINDS)
    said.add_argument(
        "--format", required=True, help="what reads the files: gguf, safetensors, lora, router, …"
    )
    said.add_argument("--licence", required=True, metavar="SPDX", help="for example Apache-2.0")
    said.add_argument("--version", help="absent: the first twelve digits of the content's hash")
    said.add_argument("--quantization", metavar="Q", help="for example Q4_0")
    said.add_argument(
        "--parent",
        action="append",
        default=[],
        metavar="REFERENCE=ROLE",
        help="what it was made from; repeatable",
    )
    said.add_argument("--recipe", metavar="FILE", help="JSON: everything needed to make it again")
    said.add_argument("--data-sha256", metavar="HASH", help="of the training data")
    said.add_argument("--tokenizer-sha256", metavar="HASH")
    said.add_argument(
        "--metric", action="append", default=[], metavar="DOMAIN.METRIC=VALUE", help="as measured; repeatable"
    )
    parser.add_argument("--move", action="store_true", help="take the files instead of copying them")
    parser.add_argument("--alias", metavar="NAME@LABEL", help="and let this alias point at it")
    _add_reason(parser)
    parser.set_defaults(run=registry_verbs.publish)
