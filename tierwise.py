"""The `tierwise` command: finds the verb and hands over. A verb's module is imported only when it is called."""

from __future__ import annotations

import importlib
import os
import sys

# verb: (module with `main(argv) -> int`, one line for --help)
VERBS: dict[str, tuple[str, str]] = {
    "up": ("serving.commands.up", "bring the base model in, publish the tiers, and serve them"),
    "serve": ("serving.commands.serve", "serve the tiers of a configuration"),
    "engine": ("serving.commands.engine", "run or describe one tier's engine"),
    "route": ("serving.commands.route", "explain which arm would answer a prompt, and why"),
    "registry": ("serving.commands.registry", "list, publish, alias, roll back and verify checkpoints"),
    "ledger": ("serving.commands.ledger", "look at what was decided, attempted and spent"),
    "train": ("train.commands.train", "post-train a base model on verifiable domains"),
    "distill": ("distill.commands.distill", "make a model cheaper to run, and measure what that costs"),
    "budget": ("serving.commands.budget", "look at the budget of a running gateway, and change it"),
    "keys": ("serving.commands.keys", "create, list and revoke API keys and admin keys"),
    "bench": ("loadtests.bench", "measure what the gateway adds"),
}

_HEAD = """\
usage: tierwise VERB [options]      (tierwise VERB --help tells more)

Serves tiers of a model behind one OpenAI-compatible endpoint and chooses between them.

"""
_TAIL = """
Begin with `tierwise up`, then:

  curl http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"model": "auto", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}'
"""


def help_text() -> str:
    """The text of `tierwise --help`."""
    return _HEAD + "".join(f"  {verb:<10}{line}\n" for verb, (_, line) in VERBS.items()) + _TAIL


def main(argv: list[str] | None = None) -> int:
    """Run `tierwise argv…` and return the exit status: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in {"-h", "--help", "help"}:
        print(help_text(), end="")
        return 0
    verb, *rest = argv
    if verb == "--version":
        from importlib.metadata import version

        print(version("tierwise"))
        return 0
    if verb not in VERBS:
        import difflib

        near = difflib.get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "see `tierwise --help`"
        print(f"tierwise: no verb {verb!r}; {hint}", file=sys.stderr)
        return 2
    try:
        status = int(importlib.import_module(VERBS[verb][0]).main(rest))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever reads our output, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that nothing fails at exit either
        return 141
    return status


if __name__ == "__main__":
    sys.exit(main())
