"""Examines one domain: makes items, gives many answers that deserve nothing and some that deserve all, and tells what
came of it. Everything that the domain does happens in a worker's process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final

from train.domains import catalog
from train.domains.audit import Failure, Record, Tally, source_sha256
from train.domains.auditing.intervals import lower_bound
from train.domains.auditing.probes import ATTACKS, EMPTY, ODD_TEXTS, constants, echoes, noisy, said
from train.domains.base import Domain, ErrorClass, Item
from train.domains.item_json import item_from_json, transcript_as_json
from train.verifiers.pool import Pool

SEED: Final = 20_000
OTHER_SEED: Final = 20_001
NUM_ITEMS: Final = 200
GENERATION_BUDGET_S: Final = 12.0
PROBE_BUDGET_S: Final = 15.0
"""For the answers of one probe; a slow verifier sees fewer items."""
GENERATION_DEADLINE_S: Final = 180.0
DEADLINE_S: Final = 60.0
"""Of a batch of answers. Batches are made for the budget above, so only a verdict that hangs takes so long."""
MAX_CONSTANT: Final = 0.5
"""What a constant answer may earn: half, as in a fair choice between two. Beyond it the domain teaches to guess."""
MAX_UNDESERVED: Final = 0.1
"""What an echo, noise or an attack may earn, by chance."""
MAX_SHARED: Final = 0.5
"""The share of prompts that two seeds may have in common; small levels have few different ones."""
MAX_GENERATE_S: Final = 1.5
MAX_VERIFY_S: Final = 15.0
_WORKER: Final = "train.domains.auditing.worker"

Answer = tuple[int, dict[str, Any]]
"""Place of an item, and a transcript as JSON."""


@dataclass
class _Findings:
    """What is known so far."""

    failures: dict[str, str] = field(default_factory=dict)
    tallies: dict[str, list[int]] = field(default_factory=dict)

    def fail(self, probe: str, detail: str) -> None:
        """Note a failure, the first of each probe."""
        self.failures.setdefault(probe, detail)

    def count(self, kind: str, judged: Sequence[dict[str, Any]]) -> None:
        """Add to a tally."""
        tally = self.tallies.setdefault(kind, [0, 0])
        tally[0] += sum(bool(one["passed"]) for one in judged)
        tally[1] += len(judged)


class Examination:
    """The audit of one domain."""

    def __init__(
        self,
        domain: Domain,
        pool: Pool,
        other: Pool,
        *,
        num_items: int = NUM_ITEMS,
        package: str = catalog.PACKAGE,
    ) -> None:
        """`other` has another hash seed: whatever depends on the order of a set shows there. The domain is found by
        its name below `package`."""
        self._package = package
        self._domain, self._pool, self._other = domain, pool, other
        self._num_items = num_items
        self._found = _Findings()
        self._made: list[dict[str, Any]] = []
        self._items: list[Item] = []
        self._verify_s = 0.0

    def record(self) -> Record:
        """Examine."""
        generated = self._call(self._pool, "generate", "generate", SEED, self._num_items, GENERATION_BUDGET_S)
        best, constant = 0.0, ""
        if generated is not None:
            self._made = generated["made"]
            self._items = [item_from_json(made["item"]) for made in self._made]
            self._look_at_items(generated)
            if self._look_at_references():
                best, constant = self._try_constants()
                self._try_undeserved()
        tallies = {
            kind: Tally(*self._found.tallies.get(kind, (0, 0))) for kind in ("right", "wrong", "adversarial")
        }
        return Record(
            domain=self._domain.name,
            source_sha256=source_sha256(self._domain),
            failures=tuple(Failure(probe, detail) for probe, detail in self._found.failures.items()),
            num_items=len(self._items),
            baseline=best,
            constant=constant[:60],
            generate_s=generated["mean_s"] if generated else 0.0,
            verify_s=self._verify_s,
            **tallies,
        )

    def _look_at_items(self, generated: dict[str, Any]) -> None:
        """Levels, determinism, seeds, and how long an item takes."""
        if generated["mean_s"] > MAX_GENERATE_S:
            self._found.fail("timeout", f"an item takes {generated['mean_s']:.1f} s on average")
        num_levels = self._domain.num_levels
        rows = [
            self._items[i : i + num_levels] for i in range(0, len(self._items) - num_levels + 1, num_levels)
        ]
        differing = [len({item.prompt for item in row}) == num_levels for row in rows]
        if num_levels < 3 or fmean(differing or [0]) < 0.5:
            self._found.fail(
                "levels", f"{num_levels} levels, different in {fmean(differing or [0]):.0%} of places"
            )
        sample = range(min(len(self._items), max(16, 4 * num_levels)))
        places = [[self._items[i].seed, self._items[i].index, self._items[i].level] for i in sample]
        for pool in (self._pool, self._other):
            again = self._call(pool, "determinism", "regenerate", places)
            if again is not None and again != [self._made[i]["item"] for i in sample]:
                self._found.fail(
                    "determinism", "an item differs when it is made again, or in another process"
                )
        elsewhere = self._call(
            self._pool, "seeds", "regenerate", [[OTHER_SEED, *place[1:]] for place in places]
        )
        if elsewhere is not None:
            shared = {item.prompt for item in self._items} & {item["prompt"] for item in elsewhere}
            share = fmean(item["prompt"] in shared for item in elsewhere)
            if share > MAX_SHARED:
                self._found.fail("seeds", f"two seeds share {share:.0%} of their prompts")

    def _look_at_references(self) -> bool:
        """Whether references pass, every one and twice over; the rest makes no sense where verdicts cannot be had."""
        answers = [(place, made["reference"]) for place, made in enumerate(self._made)]
        first = self._judge("oracle", answers[:8])
        if first is None:
            return False
        # A right answer may be known by its letters, and only another one be worked at.
        swapped = [(place, answers[place - self._domain.num_levels][1]) for place in self._spread(6)]
        others = self._judge("wrong", swapped)
        if others is None:
            return False
        self._verify_s = max(fmean(one["seconds"] for one in judged) for judged in (first, others))
        rest = self._judge("oracle", answers[8 : self._share(1, at_least=24)])
        twice = self._judge("determinism", answers[:8])
        if rest is None or twice is None:
            return False
        judged = [*first, *rest]
        self._found.count("right", judged)
        unavailable = [one for one in judged if one["error"] == ErrorClass.UNAVAILABLE]
        if unavailable:
            self._found.fail("unavailable", "what it needs is not on this machine")
            return False
        rejected = [one for one in judged if one["score"] < 1.0 or not one["passed"]]
        if rejected:
            said = f" ({rejected[0]['error']})" if rejected[0]["error"] else ""
            self._found.fail("oracle", f"{len(rejected)} of {len(judged)} references do not score 1{said}")
        if [one["score"] for one in first] != [one["score"] for one in twice]:
            self._found.fail("determinism", "a verdict differs when it is asked for again")
        if max(one["seconds"] for one in judged) > MAX_VERIFY_S:
            self._found.fail("timeout", f"a verdict took more than {MAX_VERIFY_S:g} s")
        return True

    def _try_constants(self) -> tuple[float, str]:
        """The best constant answer and what it earns. All are tried on few items, the best on all."""
        texts = constants(self._items)
        few = self._spread(self._share(len(texts), at_least=self._domain.num_levels, at_most=42))
        screened = self._means("constant", texts, few)
        finalists = sorted(texts, key=lambda text: -max(screened.get(text, (0.0, 0.0))))[:6]
        many = self._spread(self._share(len(finalists), at_least=4 * len(few)))
        means = self._means("constant", finalists, many)
        for text, (score, marks) in means.items():
            earned, what = max((score, "score"), (marks, "marks"))
            if lower_bound(earned, len(many)) > MAX_CONSTANT:
                self._found.fail("constant", f"{text[:40]!r} earns {earned:.2f} ({what}, {len(many)} items)")
        best = max(means, key=lambda text: means[text][0], default="")
        return (means[best][0], best) if means and means[best][0] > 0 else (0.0, "")

    def _try_undeserved(self) -> None:
        """Nothing, echoes, noise around the truth, attacks, odd text, and other items' answers."""
        few = self._spread(self._share(len(EMPTY), at_least=6, at_most=60))
        for one in self._judge("empty", self._each(few, lambda item: EMPTY)) or ():
            if one["score"] > 0 or one["passed"]:
                self._found.fail("empty", f"an empty answer earns {one['score']:g}")
        others = [item.answer for item in self._items]
        many = self._spread(self._share(3, at_least=12))
        self._undeserved("echo", self._each(many, echoes))
        self._undeserved("noise", self._each(many, lambda item: noisy(item, others)))
        some = self._spread(self._share(len(ATTACKS), at_least=1, at_most=8))
        for attack in ATTACKS:
            if "timeout" in self._found.failures:
                break
            self._undeserved("adversarial", self._each(some, lambda item, text=attack: (text,)))  # type: ignore[misc]
        self._undeserved(
            "crash",
            self._each(
                self._spread(self._share(len(ODD_TEXTS), at_least=1, at_most=3)), lambda item: ODD_TEXTS
            ),
        )
        wrong = [
            (place, self._made[(place + step) % len(self._made)]["reference"])
            for place in self._spread(self._share(2, at_least=12))
            for step in (self._domain.num_levels, 2 * self._domain.num_levels)
            if others[place] != others[(place + step) % len(others)]
        ]
        self._found.count("wrong", self._judge("wrong", wrong) or ())

    def _undeserved(self, probe: str, answers: list[Answer]) -> None:
        judged = self._judge(probe, answers)
        if judged:
            self._found.count("adversarial", judged)
            earned = fmean(one["score"] for one in judged)
            if lower_bound(earned, len(judged)) > MAX_UNDESERVED:
                text = str(answers[0][1]["messages"][0]["text"])[:40]
                self._found.fail(probe, f"earns {earned:.2f} over {len(judged)} answers (such as {text!r})")

    def _means(
        self, probe: str, texts: Iterable[str], places: Sequence[int]
    ) -> dict[str, tuple[float, float]]:
        """By text: mean score and mean marks."""
        means = {}
        for text in texts:
            judged = self._judge(probe, self._each(places, lambda item, text=text: (text,)))  # type: ignore[misc]
            if judged:
                means[text] = (fmean(one["score"] for one in judged), fmean(one["marks"] for one in judged))
        return means

    def _each(self, places: Sequence[int], texts: Callable[[Item], Iterable[str]]) -> list[Answer]:
        return [
            (place, transcript_as_json(said(self._items[place], text)))
            for place in places
            for text in texts(self._items[place])
        ]

    def _share(self, num_texts: int, *, at_least: int, at_most: int | None = None) -> int:
        """Items that the budget allows for so many answers to each."""
        affordable = int(PROBE_BUDGET_S / (num_texts * max(self._verify_s, 1e-5)))
        return min(max(at_least, affordable), at_most or len(self._items), len(self._items))

    def _spread(self, num_places: int) -> list[int]:
        """So many places, of every level in turn."""
        return list(range(min(num_places, len(self._items))))

    def _judge(self, probe: str, answers: Sequence[Answer]) -> list[dict[str, Any]] | None:
        """Verdicts on answers; whatever is raised is a failure. None where the worker did not come back."""
        if not answers:
            return []
        pairs = [(self._made[place]["item"], transcript) for place, transcript in answers]
        size = max(1, int(PROBE_BUDGET_S / max(self._verify_s, 1e-4)))
        judged: list[dict[str, Any]] = []
        for start in range(0, len(pairs), size):
            part = self._call(self._pool, probe, "judge", pairs[start : start + size])
            if part is None:
                return None
            judged += part
        for one in judged:
            if one["error"] and one["error"] != ErrorClass.UNAVAILABLE and probe != "oracle":
                self._found.fail("crash", f"the verifier raises on {probe}: {one['error']}")
        return judged

    def _call(self, pool: Pool, probe: str, function: str, *args: Any) -> Any:
        deadline_s = DEADLINE_S if function == "judge" else GENERATION_DEADLINE_S
        outcome = pool.call(
            f"{_WORKER}:{function}", self._package, self._domain.name, *args, deadline_s=deadline_s
        )
        if outcome.error is None:
            return outcome.value
        name = "timeout" if outcome.error is ErrorClass.TIMED_OUT else probe
        self._found.fail(name, f"{function} for {probe}: {outcome.evidence[:200]}")
        return None
