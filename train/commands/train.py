"""`tierwise train`: bring a base in, look at domains, train, evaluate, report. Sub-verbs are imported when called."""

from __future__ import annotations

from train.commands.sub_verbs import hand_over, overview

# sub-verb: (module with `main(argv) -> int`, one line for --help)
SUB_VERBS: dict[str, tuple[str, str]] = {
    "base": ("train.commands.base", "bring a base model in, as safetensors with its chat template"),
    "bench": ("train.commands.bench", "time the sampler against transformers' generate"),
    "domains": ("train.commands.domains", "list, show, sample and audit the domains"),
    "sandbox": ("train.commands.sandbox", "say what isolates untrusted code on this machine"),
    "run": ("train.commands.run", "run a recipe: learn by heart, then reinforce"),
    "sft": ("train.commands.sft", "run a recipe as far as the end of learning by heart"),
    "rl": ("train.commands.rl", "run a recipe to its end"),
    "eval": ("train.commands.eval", "score a checkpoint on held-out items"),
    "compare": ("train.commands.compare", "runs of several seeds as one table, before and after"),
    "ablate": ("train.commands.ablate", "one part of the trainer on and off, over several seeds"),
    "bench-trl": ("train.commands.bench_trl", "our steps of reinforcement against TRL's"),
    "bench-step": (
        "train.commands.bench_step",
        "time the steps of a recipe, and what they could take at best",
    ),
    "queue": ("train.commands.queue", "many runs on one machine, by priority, share and deadline"),
    "publish": ("train.commands.publish", "publish a run's policy as a difference to its base"),
    "export": ("train.commands.export", "write a policy as a whole model, in Hugging Face's form or as GGUF"),
    "report": ("train.commands.report", "write one page about a run"),
}


def help_text() -> str:
    """The text of `tierwise train --help`."""
    return (
        f"{overview('train', SUB_VERBS)}\n"
        "Begin with a recipe that takes a minute:\n\n"
        "  tierwise train run r0 --out runs/r0\n"
    )


def main(argv: list[str]) -> int:
    """Run `tierwise train argv…`."""
    return hand_over("train", SUB_VERBS, argv, help_text())
