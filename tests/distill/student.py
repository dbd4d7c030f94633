"""A tiny teacher of characters with something to say, and all that makes a student of it; no process is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from distill.opened_base import OpenedBase
from distill.recipe import StudentRecipe
from distill.student_parts import Workshop
from distill.whole_teacher import WholeTeacher
from tests.train.model.tiny import tiny_llama, tiny_shape
from train.codec import CharacterCodec
from train.domains import catalog
from train.domains.base import Item, Verdict
from train.transcript import Transcript

NAMES = ("terse_sorting", "terse_addition")


class Nothing:
    """A `Judge` to whom all is worth half."""

    def verify_all(self, pairs: Iterable[tuple[Item, Transcript]]) -> list[Verdict]:
        return [Verdict(score=0.5, passed=False) for _ in pairs]


def tiny_recipe(**changes: Any) -> StudentRecipe:
    """Three of four layers, three steps of each phase; a dotted member stands as `kd__num_steps`."""
    tree: dict[str, Any] = {
        "name": "tiny",
        "about": "for tests",
        "num_threads": 1,
        "base": {"type": "scratch", "num_layers": 4, "width": 24},
        "prune": {"kept_layers": [0, 1, 3]},
        "domains": [{"name": name, "levels": [0], "max_answer_tokens": 6} for name in NAMES],
        "texts": {"general_share": 0.25, "max_general_tokens": 5, "max_text_tokens": 80},
        "micro_batch_tokens": 96,
        "checkpoint_every_steps": 2,
        "kd": {"num_steps": 3, "items_per_step": 6, "num_warmup_steps": 1, "learning_rate": 3e-3},
        "gkd": {
            **{"num_steps": 3, "items_per_step": 6, "num_warmup_steps": 1, "learning_rate": 3e-3},
            **{"student_share": 0.5, "divergence": "jsd", "cross_entropy_weight": 0.1},
        },
        "evaluation": {"num_items": 2},
    }
    for dotted, value in changes.items():
        *parents, last = dotted.split("__")
        node = tree
        for parent in parents:
            node = node[parent]
        node[last] = value
    return StudentRecipe.model_validate(tree)


def workshop(names: Sequence[str] = NAMES, without: frozenset[str] = frozenset()) -> Workshop:
    """A teacher of four layers."""
    codec = CharacterCodec()
    shape = tiny_shape(vocab_size=codec.num_tokens, num_layers=4, max_positions=160)
    model = tiny_llama(shape, dtype=torch.float32)
    base = OpenedBase(model, codec, None, "tiny", "tiny")
    domains: Mapping[str, Any] = {name: catalog.get(name) for name in names}
    return Workshop(base, WholeTeacher(model), domains, without, Nothing())  # type: ignore[arg-type]
