"""`tierwise train sandbox`: what isolates untrusted code on this machine, found by trying to break out."""

from __future__ import annotations

import json

from train.commands.options import new_parser

ABOUT = """\
Tries, in each way of isolating that this machine may have, to read secrets, reach the network, signal its parent and
write outside. The first way in which every attempt fails is used; if none is left, code is never run.
"""
EXAMPLES = "examples:\n  tierwise train sandbox\n  tierwise train sandbox --json\n"


def main(argv: list[str]) -> int:
    """Run `tierwise train sandbox argv…`. 0 if something isolates, 1 if nothing does."""
    parser = new_parser("sandbox", ABOUT, EXAMPLES)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    args = parser.parse_args(argv)
    from train.sandbox.probe import probe

    found = probe()
    if args.json:
        trials = [{"way": trial.description, "failure": trial.failure} for trial in found.trials]
        print(
            json.dumps(
                {"isolates": found.isolation is not None, "trials": trials, "notes": list(found.notes)}
            )
        )
    else:
        for trial in found.trials:
            print(f"{'no ' if trial.failure else 'yes'} {trial.description}")
            if trial.failure:
                print(f"    {trial.failure}")
        for note in found.notes:
            print(f"note: {note}")
        print("untrusted code runs" if found.isolation else "untrusted code is not run on this machine")
    return 0 if found.isolation is not None else 1
