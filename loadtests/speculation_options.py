"""The command line of `tierwise bench speculation`."""

from __future__ import annotations

import argparse
from pathlib import Path

from loadtests.argument_types import count, not_negative
from loadtests.engine_options import add_engine, names
from loadtests.speculation.drafts import draft_of

ABOUT = """\
Measures drafts for one model: the same prompts without and with each draft, greedy, one stream, in turn on servers
that are all up. By domain: whether the same is said, how much of it had been proposed, how many times as fast it is,
and what `tierwise distill cost-model` predicted. Where an answer differs, the model is asked how far apart it has
the two tokens: a tie is rounding, all else is a defect. A draft that pays nowhere is refused, with status 1.

A draft is written [NAME=]KIND[,MEMBER=VALUE…] with the members of `tiers.NAME.engine.draft`:
  ngram,match_tokens=3,max_tokens=8        what followed the last tokens when they were last said
  model,model=fast@stable,max_tokens=3     a smaller model of the same vocabulary; for vLLM a directory, also of a head

The machine must be otherwise idle: what else runs hides small gains.
"""
EXAMPLES = """\
examples:
  tierwise bench speculation full@stable --draft ngram --draft q4=model,model=fast@stable
  tierwise bench speculation full@stable --draft short=ngram,match_tokens=2,max_tokens=4 --set threads=1 --markdown
  tierwise bench speculation full@stable --draft q4=model,model=fast@stable --predictions q4=cost.json --dry-run
  tierwise bench speculation ./checkpoint --engine vllm --python .venv-vllm/bin/python --draft ngram
"""
DEFAULT_DOMAINS = ("copy", "edit", "reformat", "prose")


def parser() -> argparse.ArgumentParser:
    """The verb's parser."""
    made = argparse.ArgumentParser(
        prog="tierwise bench speculation",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        default="full@stable",
        help="a registry reference or a GGUF file, for vLLM a checkpoint's directory (default full@stable)",
    )
    made.add_argument(
        "--draft",
        action="append",
        required=True,
        type=draft_of,
        dest="drafts",
        metavar="DRAFT",
        help="one or more",
    )
    add_engine(made)
    made.add_argument(
        "--predictions",
        action="append",
        default=[],
        type=_named_file,
        metavar="NAME=JSON",
        help="what `distill cost-model` printed for the draft of that name",
    )
    _add_prompts(made.add_argument_group("prompts"))
    made.add_argument("--seed", type=int, default=0, help="of prompts and orders (default 0)")
    made.add_argument("--dry-run", action="store_true", help="only print what would be asked")
    shape = made.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print every figure as JSON")
    shape.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    return made


def _add_prompts(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--domains",
        type=names,
        default=DEFAULT_DOMAINS,
        metavar="NAME,…",
        help=f"of ours or of the router's prompts (default {','.join(DEFAULT_DOMAINS)})",
    )
    group.add_argument(
        "--prompts", type=Path, metavar="FILE", help="JSON lines of {domain, level, prompt, answer} instead"
    )
    group.add_argument(
        "--per-domain", type=count, default=8, metavar="N", help="six are needed for an interval (default 8)"
    )
    group.add_argument("--max-tokens", type=count, default=96, metavar="N", help="of an answer (default 96)")
    group.add_argument("--rounds", type=count, default=3, metavar="N", help="of each prompt (default 3)")
    group.add_argument(
        "--max-gap",
        type=not_negative,
        default=0.05,
        metavar="NATS",
        help="two tokens so close are a tie (default 0.05; in bfloat16 logits of 16 to 32 lie 0.125 apart)",
    )


def _named_file(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise argparse.ArgumentTypeError(f"{text!r}: write it as NAME=FILE, with the name of a draft")
    return name, Path(path)
