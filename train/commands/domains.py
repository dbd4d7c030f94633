"""`tierwise train domains`: what there is to train on, what an item looks like, and whether a domain may be trusted."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from train.commands import domain_views, domains_export
from train.commands.failures import reported
from train.commands.options import new_parser
from train.domains import audit as gate
from train.domains import catalog
from train.domains.base import Domain, Family, Item
from train.domains.item_json import item_as_json, transcript_as_json

ABOUT = """\
A domain makes items from a seed and judges what a policy makes of them. None trains before it has passed its audit,
which tries to be paid for nothing: by silence, constants, echoes, noise around the truth, attacks and odd text.
"""
EXAMPLES = {
    "": """\
examples:
  tierwise train domains list
  tierwise train domains show chain_sum
  tierwise train domains sample chain_sum --level 1
  tierwise train domains audit chain_sum gcd
""",
    "list": """\
examples:
  tierwise train domains list --family tool_use
  tierwise train domains list --json | jq -r '.[] | select(.may_train) | .name'
""",
    "show": "example:\n  tierwise train domains show coin_flip\n",
    "sample": """\
examples:
  tierwise train domains sample gcd
  tierwise train domains sample gcd --level 2 --count 5 --json
""",
    "audit": """\
examples:
  tierwise train domains audit                    every domain; the better part of an hour on two cores
  tierwise train domains audit gcd lcm
  tierwise train domains audit --refused          those that may not train: new ones and changed ones as well
""",
    "export": domains_export.EXAMPLE,
}


def main(argv: list[str]) -> int:
    """Run `tierwise train domains argv…`. 0 done, 1 failed or a domain did not pass, 2 for wrong use."""
    args = parser().parse_args(argv)
    return reported(lambda: int(args.run(args)))


def list_domains(args: argparse.Namespace) -> int:
    """`list`: every domain, by family."""
    chosen = [domain for domain in catalog.domains().values() if args.family in {None, domain.family}]
    if args.json:
        print(json.dumps([_described(domain) for domain in chosen]))
    else:
        domain_views.print_domains(chosen)
    return 0


def show(args: argparse.Namespace) -> int:
    """`show`: one domain and its audit."""
    domain = catalog.get(args.name)
    if args.json:
        print(json.dumps(_described(domain)))
    else:
        domain_views.print_domain(domain)
    return 0


def sample(args: argparse.Namespace) -> int:
    """`sample`: items, with the answers that pass."""
    domain = catalog.get(args.name)
    if args.level is not None and not 0 <= args.level < domain.num_levels:
        print(f"tierwise: {args.name} has levels 0 to {domain.num_levels - 1}", file=sys.stderr)
        return 2
    chosen = range(domain.num_levels) if args.level is None else [args.level]
    items = [domain.item(args.seed, index, level) for level in chosen for index in range(args.count)]
    if args.json:
        print(json.dumps([_sampled(domain, item) for item in items]))
    else:
        domain_views.print_items(domain, items)
    return 0


def audit(args: argparse.Namespace) -> int:
    """`audit`: examine domains and write what came of it; 1 if one did not pass."""
    from train.domains.auditing.run import audit as run

    wanted = [catalog.get(name) for name in args.names] or list(catalog.domains().values())
    if args.refused:
        wanted = [domain for domain in wanted if gate.refusal(domain)]
    with domain_views.audit_progress(len(wanted), is_shown=not args.json) as advance:

        def keep(record: gate.Record) -> None:
            gate.write([record])
            advance(record)

        made = run(wanted, num_at_once=args.jobs, num_items=args.items, on_record=keep)
    if args.json:
        print(json.dumps({record.domain: gate.as_json(record) for record in made}))
    else:
        domain_views.print_audit(made)
    return 0 if all(record.is_passed for record in made) else 1


def _described(domain: Domain) -> dict[str, Any]:
    record = gate.records().get(domain.name)
    refusal = gate.refusal(domain)
    return {
        "name": domain.name,
        "family": domain.family,
        "description": domain.description,
        "num_levels": domain.num_levels,
        "may_train": not refusal,
        "refusal": refusal,
        "audit": None if record is None else gate.as_json(record),
    }


def _sampled(domain: Domain, item: Item) -> dict[str, Any]:
    return {"item": item_as_json(item), "reference": transcript_as_json(domain.reference(item))}


def parser() -> argparse.ArgumentParser:
    """The sub-verb's parser, with what runs in `run`."""
    made = new_parser("domains", ABOUT, EXAMPLES[""])
    verbs = made.add_subparsers(metavar="SUB-VERB", required=True)
    add = _sub_verb(verbs, "list", "list domains by family, and whether they may train")
    add.add_argument("--family", choices=[*Family], metavar="FAMILY", help="only this one")
    add.set_defaults(run=list_domains)
    add = _sub_verb(verbs, "show", "show one domain and what its audit found")
    add.add_argument("name", metavar="NAME")
    add.set_defaults(run=show)
    add = _sub_verb(verbs, "sample", "show items, with answers that pass")
    add.add_argument("name", metavar="NAME")
    add.add_argument("--level", type=int, metavar="N", help="every level where absent")
    add.add_argument("--count", type=int, default=1, metavar="N", help="of each level (%(default)s)")
    add.add_argument("--seed", type=int, default=0, metavar="N")
    add.set_defaults(run=sample)
    add = _sub_verb(verbs, "audit", "examine domains, and write the records that training asks for")
    add.add_argument("names", nargs="*", metavar="NAME", help="every domain where absent")
    add.add_argument("--refused", action="store_true", help="only those that may not train as things are")
    add.add_argument("--jobs", type=int, default=2, metavar="N", help="domains at once (%(default)s)")
    add.add_argument("--items", type=int, default=200, metavar="N", help="of each, at most (%(default)s)")
    add.set_defaults(run=audit)
    about = "write items with short answers as records {domain, level, prompt, answer}, one a line"
    domains_export.add_options(_sub_verb(verbs, "export", about))
    return made


def _sub_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    made = verbs.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        epilog=EXAMPLES[name],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--json", action="store_true", help="print JSON, for machines")
    return made
