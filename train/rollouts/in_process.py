"""Samples in this process: a batch that is always full, and nothing computed twice.

A prompt is shared by all who answer it, so is what prompts begin with alike, and answers that are the same so far are
one until they part.

An answer depends on the weights, its prompt, the sampling and its seed, to the bit, and not on what else was asked, in
which order, or how many slots there are: linear maps and attention are computed so (`train.model.linear`,
`train.model.decoder`). A run that is stopped and goes on, or a batch that is cut, gives the same answers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from train.model.decoder import Cache, CacheAttention, Decoder, Prefix
from train.model.linear import FloatLinear, LinearMap
from train.model.llama import Llama
from train.rollouts.drawing import draw, uniforms
from train.rollouts.rollout import SampleRequest, Sampling, Span, StopReason

MAX_CACHE_BYTES = 2 << 30


@dataclass(slots=True)
class SamplerStats:
    """What a sampler has done so far."""

    num_tokens: int = 0
    """Sampled."""
    num_prompt_tokens: int = 0
    """Of the prompts that were computed; what they begin with alike counts in each."""
    num_decode_steps: int = 0
    num_slot_steps: int = 0
    """Tokens computed behind the prompts; answers that are the same so far share them."""
    num_idle_slot_steps: int = 0
    """Slots that stood empty while a request waited: 0, or there is a defect."""
    elapsed_s: float = 0.0


class InProcessSampler:
    """A `rollouts.Sampler` over a model in memory.

    Args:
        model: read now, and what moves of it at each `update`.
        num_slots: answers computed at once; fewer where `max_cache_bytes` does not hold as many.
        make_linear: how linear maps are computed: `linear.FloatLinear`, the model itself, or `linear.Int8Linear`, a
            policy close to it that is half as fast again.
        policy_version: of the weights as they are now.
        max_seconds: for one call of `sample`; what is unfinished then ends with `StopReason.DEADLINE`.
        max_cache_bytes: for keys and values.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        model: Llama,
        *,
        num_slots: int = 64,
        make_linear: Callable[[Tensor], LinearMap] = FloatLinear,
        policy_version: int = 0,
        max_seconds: float = float("inf"),
        max_cache_bytes: int = MAX_CACHE_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stats = SamplerStats()
        self._model = model
        self._num_slots = num_slots
        self._make_linear = make_linear
        self._max_seconds = max_seconds
        self._max_cache_bytes = max_cache_bytes
        self._clock = clock
        self._policy_version = policy_version
        self._decoder = Decoder(model, make_linear)

    @property
    def policy_version(self) -> int:
        """Of the weights that sample now."""
        return self._policy_version

    def update(self, policy_version: int) -> None:
        """Read the weights that move again; the others are as they were."""
        self._policy_version = policy_version
        self._decoder = Decoder(self._model, self._make_linear, before=self._decoder)

    @torch.no_grad()
    def sample(
        self, requests: Sequence[SampleRequest], sampling: Sampling
    ) -> list[list[tuple[Span, StopReason]]]:
        """As `rollouts.Sampler`.

        Raises:
            ValueError: a prompt is empty or leaves no room for an answer.
        """
        started = self._clock()
        jobs = [[_Job(request, seed) for seed in request.seeds] for request in requests]
        waiting = deque(job for row in jobs for job in row)
        if waiting:
            batch = _Batch(self._decoder, waiting, sampling, self._slots_for(requests, sampling), self.stats)
            while batch.advance():
                if self._clock() - started >= self._max_seconds:
                    break
        self.stats.elapsed_s += self._clock() - started
        return [[(job.span(self._policy_version), job.stop) for job in row] for row in jobs]

    def _slots_for(self, requests: Sequence[SampleRequest], sampling: Sampling) -> tuple[int, int]:
        """How many slots, and of how many tokens."""
        shape = self._decoder.shape
        lengths = [len(request.token_ids) for request in requests]
        if min(lengths) == 0 or max(lengths) >= shape.max_positions:
            raise ValueError(
                f"prompts of {min(lengths)} to {max(lengths)} tokens; this model takes 1 to {shape.max_positions - 1}"
            )
        longest = max(len(request.token_ids) + request.limit(sampling) for request in requests)
        max_tokens = min(longest, shape.max_positions)
        kept_each = 2 * shape.num_layers * shape.num_kv_heads * shape.head_size
        slot_bytes = self._decoder.cache_dtype.itemsize * kept_each * max_tokens
        num = min(self._num_slots, sum(len(request.seeds) for request in requests))
        return max(1, min(num, self._max_cache_bytes // slot_bytes)), max_tokens


@dataclass(slots=True)
class _Job:
    """One answer in the making."""

    request: SampleRequest
    seed: int
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stop: StopReason = StopReason.DEADLINE
    numbers: list[float] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Of prompt and answer."""
        return len(self.request.token_ids) + len(self.token_ids)

    def span(self, policy_version: int) -> Span:
        return Span(tuple(self.token_ids), tuple(self.logprobs), policy_version)


class _Batch:
    """The slots, and the jobs that are in them or wait.

    Jobs that answer the same prompt and have said the same so far share a slot, until they part. Each has a slot set
    aside even so, for all may part at once. Busy slots come first, without a gap.
    """

    def __init__(
        self,
        decoder: Decoder,
        waiting: deque[_Job],
        sampling: Sampling,
        slots: tuple[int, int],
        stats: SamplerStats,
    ) -> None:
        self._decoder = decoder
        self._waiting = waiting
        self._sampling = sampling
        self._num_slots = slots[0]
        self._cache = Cache(decoder, *slots)
        self._busy: list[list[_Job]] = []
        self._prefixes: dict[tuple[int, ...], Prefix] = {}
        self._stats = stats

    @property
    def _num_admitted(self) -> int:
        return sum(map(len, self._busy))

    def advance(self) -> bool:
        """Fill the slots and decode one token in each; False once all is done."""
        self._admit()
        if not self._busy:
            return False
        lengths = [jobs[0].length - 1 for jobs in self._busy]  # the last token is yet to be computed
        device = self._decoder.device
        token_ids = torch.tensor([jobs[0].token_ids[-1] for jobs in self._busy], device=device)
        places = torch.tensor(lengths, device=device)
        hidden = self._decoder.hidden(token_ids, places, CacheAttention(self._cache, places, max(lengths)))
        self._stats.num_decode_steps += 1
        self._stats.num_slot_steps += len(self._busy)
        self._stats.num_idle_slot_steps += (self._num_slots - self._num_admitted) if self._waiting else 0
        self._settle(self._draw(self._busy, self._decoder.logits(hidden)))
        return bool(self._busy or self._waiting)

    def _admit(self) -> None:
        """Let waiting jobs in; one that ends with its first token leaves its slot to the next."""
        while self._waiting and (num := self._num_slots - self._num_admitted):
            entering: dict[tuple[int, ...], list[_Job]] = {}
            for _ in range(min(num, len(self._waiting))):
                job = self._waiting.popleft()
                entering.setdefault(job.request.token_ids, []).append(job)
            self._prefill(entering)
            prefixes = [self._prefixes[prompt] for prompt in entering]
            parted = self._draw(list(entering.values()), torch.stack([prefix.logits for prefix in prefixes]))
            for prefix, parts in zip(prefixes, parted, strict=True):
                for jobs in parts:
                    self._cache.begin(len(self._busy), prefix)
                    self._busy.append(jobs)
            # answers to one prompt wait behind one another: only the last one's may still be wanted
            last = list(entering)[-1]
            self._prefixes = {last: self._prefixes[last]}

    def _prefill(self, prompts: Iterable[tuple[int, ...]]) -> None:
        new = [prompt for prompt in prompts if prompt not in self._prefixes]
        if new:
            self._prefixes |= dict(zip(new, self._decoder.prefill(new), strict=True))
            self._stats.num_prompt_tokens += sum(map(len, new))

    def _draw(self, shared: Sequence[Sequence[_Job]], logits: Tensor) -> list[list[list[_Job]]]:
        """A token for each job from the row that it shares; of each row, the jobs that go on, by what they drew."""
        jobs = [job for of_row in shared for job in of_row]
        for job in jobs:
            if not job.numbers:
                job.numbers = uniforms(job.seed, job.request.limit(self._sampling))
        device = logits.device
        said = [job.numbers[len(job.token_ids)] for job in jobs]
        numbers = torch.tensor(said, dtype=torch.float64, device=device)
        rows = torch.tensor([row for row, of_row in enumerate(shared) for _ in of_row], device=device)
        tokens, logprobs = draw(logits, numbers, self._sampling.temperature, rows)
        parted: list[dict[int, list[_Job]]] = [{} for _ in shared]
        for job, row, token, logprob in zip(
            jobs, rows.tolist(), tokens.tolist(), logprobs.tolist(), strict=True
        ):
            job.token_ids.append(token)
            job.logprobs.append(logprob)
            if not self._is_done(job):
                parted[row].setdefault(token, []).append(job)
        self._stats.num_tokens += len(jobs)
        return [list(parts.values()) for parts in parted]

    def _is_done(self, job: _Job) -> bool:
        if job.token_ids[-1] in self._sampling.stop_token_ids:
            job.stop = StopReason.END
        elif (
            len(job.token_ids) >= job.request.limit(self._sampling)
            or job.length >= self._decoder.shape.max_positions
        ):
            job.stop = StopReason.LENGTH
        return job.stop is not StopReason.DEADLINE

    def _settle(self, parted: Sequence[Sequence[list[_Job]]]) -> None:
        """Jobs that still share stay; those that parted move into free slots, and gaps are filled from behind."""
        busy = {slot: parts[0] for slot, parts in enumerate(parted) if parts}
        free = (slot for slot in range(self._num_slots) if slot not in busy)
        moves = [(slot, jobs) for slot, parts in enumerate(parted) for jobs in parts[1:]]
        for source, jobs in moves:
            target = next(free)
            self._move(source, target, jobs)
            busy[target] = jobs
        gaps = (slot for slot in range(len(busy)) if slot not in busy)
        for source in [slot for slot in busy if slot >= len(busy)]:
            target = next(gaps)
            self._move(source, target, busy[source])
            busy[target] = busy.pop(source)
        self._busy = [busy[slot] for slot in range(len(busy))]

    def _move(self, source: int, target: int, jobs: Sequence[_Job]) -> None:
        self._cache.move(source, target, jobs[0].length - 1)
