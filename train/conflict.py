"""Whether domains pull the weights apart, and what to do where they do. Measured first, acted on only then.

From each step every domain leaves a *sketch* of its gradient, a count sketch a module (Charikar et al. 2002,
doi:10.1007/3-540-45465-9_59): a few hundred numbers whose inner products are those of the gradients on average. Cosines
of the sketches, smoothed over steps, are the conflict matrix that is logged. Where the smoothed cosine of two domains
in a module is below a threshold, and only there, each gives up what points against the other in that module:
g ← g − (g·h / h·h) h for g·h < 0 (PCGrad, arXiv 2001.06782). Everywhere else the gradients are summed as they are.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from train.seeds import seed_of

SKETCH_SIZE: Final = 512
MEMORY: Final = 0.9
"""Of a smoothed cosine, what is kept each time both domains are in a step."""
LEAST_STEPS: Final = 3
"""A cosine that was seen fewer times is not acted on."""

Gradient = Mapping[str, Tensor]
"""By weight's name."""


@dataclass(slots=True)
class Cosine:
    """The smoothed cosine of two domains in one module."""

    value: float = 0.0
    num_steps: int = 0

    def observe(self, cosine: float) -> None:
        """Take a step's in."""
        keep = MEMORY if self.num_steps else 0.0
        self.value = keep * self.value + (1 - keep) * cosine
        self.num_steps += 1


@dataclass(frozen=True, slots=True)
class Combined:
    """The gradient of a step."""

    gradient: Gradient
    num_projected: int
    """Pairs of domains and modules where one gave way."""


class ConflictProbe:
    """Keeps the conflict matrix.

    Args:
        threshold: smoothed cosines below it are a conflict.
        is_projected: whether a conflict is acted on; else it is only measured.
        seed: of the run; in which order domains give way, and how gradients are sketched.
    """

    def __init__(self, *, threshold: float = -0.1, is_projected: bool = False, seed: int = 0) -> None:
        self.threshold = threshold
        self.is_projected = is_projected
        self._seed = seed
        self.cosines: dict[tuple[str, str, str], Cosine] = {}
        """By two domains in alphabetical order, and module."""
        self._hashes: dict[str, tuple[Tensor, Tensor]] = {}

    def combine(self, step: int, gradients: Mapping[str, Gradient]) -> Combined:
        """The gradient of a step from those of its domains, which are taken into the matrix first."""
        self._observe(gradients)
        if not self.is_projected:
            return Combined(_sum(list(gradients.values())), 0)
        order = sorted(gradients)
        random.Random(seed_of(self._seed, "conflict", step)).shuffle(order)
        given, num_projected = [], 0
        for domain in order:
            gradient = dict(gradients[domain])
            for other in order:
                for module, names in _modules(gradient).items():
                    if other != domain and self._is_conflict(domain, other, module):
                        num_projected += _give_way(gradient, gradients[other], names)
            given.append(gradient)
        return Combined(_sum(given), num_projected)

    def matrix(self) -> dict[str, dict[str, float]]:
        """Smoothed cosine of every two domains that met, over all modules alike; 1 on the diagonal."""
        sums: dict[tuple[str, str], list[float]] = {}
        for (one, other, _), cosine in self.cosines.items():
            sums.setdefault((one, other), []).append(cosine.value)
        names = sorted({name for pair in sums for name in pair})
        found = {name: {name: 1.0} for name in names}
        for (one, other), values in sums.items():
            found[one][other] = found[other][one] = sum(values) / len(values)
        return found

    def transfer(self) -> dict[str, float]:
        """How much a step on each domain helps the others: 1 + its mean cosine with them, in [0, 2]."""
        return {
            domain: 1 + sum(c for name, c in row.items() if name != domain) / max(1, len(row) - 1)
            for domain, row in self.matrix().items()
        }

    def _observe(self, gradients: Mapping[str, Gradient]) -> None:
        sketches = {domain: self._sketched(gradient) for domain, gradient in gradients.items()}
        domains = sorted(sketches)
        for place, one in enumerate(domains):
            for other in domains[place + 1 :]:
                # in an order of their own, or sums over them would vary with the process's hashes
                for module in sorted(sketches[one].keys() & sketches[other].keys()):
                    cosine = _cosine(sketches[one][module], sketches[other][module])
                    self.cosines.setdefault((one, other, module), Cosine()).observe(cosine)

    def _sketched(self, gradient: Gradient) -> dict[str, Tensor]:
        sketches = {}
        for module, names in _modules(gradient).items():
            sketch = torch.zeros(SKETCH_SIZE, dtype=torch.float32)
            for name in names:
                buckets, signs = self._hash(name, gradient[name].numel())
                sketch.index_add_(0, buckets, signs * gradient[name].flatten().float().cpu())
            sketches[module] = sketch
        return sketches

    def _hash(self, name: str, num: int) -> tuple[Tensor, Tensor]:
        if name not in self._hashes:
            generator = torch.Generator().manual_seed(seed_of(self._seed, "sketch", name))
            buckets = torch.randint(SKETCH_SIZE, (num,), generator=generator, dtype=torch.int32)
            signs = torch.randint(2, (num,), generator=generator, dtype=torch.int8) * 2 - 1
            self._hashes[name] = buckets, signs
        return self._hashes[name]

    def _is_conflict(self, one: str, other: str, module: str) -> bool:
        cosine = self.cosines.get((min(one, other), max(one, other), module))
        return cosine is not None and cosine.num_steps >= LEAST_STEPS and cosine.value < self.threshold

    def plain(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"cosines": [[*key, each.value, each.num_steps] for key, each in self.cosines.items()]}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        for one, other, module, value, num_steps in plain["cosines"]:
            self.cosines[one, other, module] = Cosine(value, num_steps)


def _modules(gradient: Gradient) -> dict[str, list[str]]:
    """The names of weights under the module that they are of."""
    found: dict[str, list[str]] = {}
    for name in gradient:
        found.setdefault(name.rpartition(".")[0], []).append(name)
    return found


def _give_way(gradient: dict[str, Tensor], other: Gradient, names: Sequence[str]) -> bool:
    """Take out of `gradient`, in these weights together, what points against `other`; whether there was anything."""
    shared = [name for name in names if name in other]
    product = sum(float((gradient[name] * other[name]).sum()) for name in shared)
    length = sum(float((other[name] ** 2).sum()) for name in shared)
    if product >= 0 or not length:
        return False
    for name in shared:
        gradient[name] = gradient[name] - product / length * other[name]
    return True


def _sum(gradients: Sequence[Gradient]) -> Gradient:
    total: dict[str, Tensor] = {}
    for gradient in gradients:
        for name, part in gradient.items():
            total[name] = total[name] + part if name in total else part
    return total


def _cosine(one: Tensor, other: Tensor) -> float:
    lengths = float(one.norm() * other.norm())
    return float(one @ other) / lengths if lengths else 0.0
