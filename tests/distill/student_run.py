"""A student's run as `tierwise distill student` leaves it, of a base of a few kilobytes."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from distill.dossier import Dossier
from distill.evaluate import Comparison, Side
from distill.gate import ENGINES
from distill.load_test import Trial
from distill.paired import Estimate, Kept
from distill.pruning.pruned import with_layers, write_checkpoint
from serving.registry.artifact import Artifact
from serving.registry.manifest import Description
from serving.registry.store import Store
from tests.train.checkpoints.test_gguf_round_trip import write_checkpoint as write_base
from tests.train.model.tiny import tiny_shape
from train.checkpoints.to_gguf import convert_to_gguf
from train.evaluate import DomainScore, Score
from train.model.llama import Llama
from train.model.weights import load_llama

SHAPE = tiny_shape(
    vocab_size=80, hidden_size=64, intermediate_size=96, head_size=16, num_layers=4, max_positions=1024
)
KEPT = (0, 1, 3)
DOMAIN = "chain_sum"


@dataclass(frozen=True)
class Made:
    """A run and the registry that has its base."""

    run: Path
    store: Store
    home: Path
    base: Artifact
    student: Llama


def make(place: Path) -> Made:
    """A student whose last layer moved."""
    write_base(place / "tiny", SHAPE)
    convert_to_gguf(place / "tiny", place / "tiny.gguf")
    store = Store(place / "home" / "registry")
    base = store.publish(
        place / "tiny.gguf", Description(kind="base", name="tiny", licence="MIT", format="gguf")
    )
    student = with_layers(load_llama(place / "tiny"), KEPT)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in student.model.layers[-1].parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator))
    run = place / "run"
    write_checkpoint(student, place / "tiny", run / "student")
    about = {
        "kept_layers": list(KEPT),
        "teacher": str(place / "somewhere"),
        "teacher_sha256": "0" * 64,
        "base": str(base.reference),
    }
    (run / "student.json").write_text(json.dumps(about))
    recipe = {
        "name": "tiny",
        "base": {"type": "run", "path": str(place / "somewhere")},
        "domains": [{"name": DOMAIN, "levels": [0]}],
        "texts": {"served": str(place / "served.jsonl")},
    }
    (run / "recipe.json").write_text(json.dumps(recipe))
    return Made(run, store, place / "home", base, student)


def copied(made: Made, place: Path) -> Made:
    """The same run and registry elsewhere."""
    run, home = place / "run", place / "home"
    shutil.copytree(made.run, run)
    shutil.copytree(made.home, home)
    store = Store(home / "registry")
    return Made(run, store, home, store.load(made.base.reference), made.student)


def good_dossier(sha256: str) -> Dossier:
    """One that passes the gate: nearly the teacher's scores, at a third of its cost."""

    def side(name: str, score: float) -> Side:
        row = DomainScore(
            domain=DOMAIN,
            num_items=64,
            greedy=Score(score, score - 0.1, score + 0.1),
            sampled=None,
            num_errors=0,
            mean_tokens=6.0,
        )
        return Side(name, (row,), Estimate(score, score - 0.1, score + 0.1), 6.0)

    comparison = Comparison(
        candidate=side("student", 0.57),
        teacher=side("full", 0.6),
        kept=Kept(Estimate(0.95, 0.91, 0.99), {DOMAIN: Estimate(-0.03, -0.06, 0.0)}),
        nearness=None,
    )
    trials = tuple(Trial(engine, "", {1: 30.0, 16: 90.0}, {1: 10.0, 16: 30.0}) for engine in ENGINES)
    return Dossier(
        candidate="student", sha256=sha256, is_same_tokenizer=True, comparison=comparison, trials=trials
    )
