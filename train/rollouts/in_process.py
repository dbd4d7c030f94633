"""Samples in this process: a batch that is always full, prompts computed once for all who answer them.

An answer depends on the weights, its prompt, the sampling and its seed, to the bit, and not on what else was asked, in
which order, or how many slots there are: linear maps and attention are computed so (`train.model.linear`,
`train.model.decoder`). A run that is stopped and goes on, or a batch that is cut, gives the same answers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
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
    """Computed."""
    num_decode_steps: int = 0
    num_slot_steps: int = 0
    """Slots that worked, over all steps."""
    num_idle_slot_steps: int = 0
    """Slots that stood empty while a request waited: 0, or there is a defect."""
    elapsed_s: float = 0.0


class InProcessSampler:
    """A `rollouts.Sampler` over a model in memory.

    Args:
        model: read now and at each `update`.
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
        self.update(policy_version)

    @property
    def policy_version(self) -> int:
        """Of the weights that sample now."""
        return self._policy_version

    def update(self, policy_version: int) -> None:
        """Read the model's weights again."""
        self._policy_version = policy_version
        self._decoder = Decoder(self._model, self._make_linear)

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
        max_tokens = min(max(lengths) + sampling.max_tokens, shape.max_positions)
        slot_bytes = 8 * shape.num_layers * shape.num_kv_heads * shape.head_size * max_tokens
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
    """The slots, the jobs in them, and those that wait. Busy slots come first, without a gap."""

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
        self._busy: list[_Job] = []
        self._prefixes: dict[int, Prefix] = {}
        self._stats = stats

    def advance(self) -> bool:
        """Fill the slots and decode one token in each; False once all is done."""
        self._admit()
        if not self._busy:
            return False
        lengths = [job.length - 1 for job in self._busy]  # the last token is yet to be computed
        token_ids = torch.tensor([job.token_ids[-1] for job in self._busy])
        places = torch.tensor(lengths)
        hidden = self._decoder.hidden(token_ids, places, CacheAttention(self._cache, places, max(lengths)))
        self._stats.num_decode_steps += 1
        self._stats.num_slot_steps += len(self._busy)
        self._stats.num_idle_slot_steps += (self._num_slots - len(self._busy)) if self._waiting else 0
        self._draw(self._busy, self._decoder.logits(hidden))
        for slot in reversed(range(len(self._busy))):
            if self._is_done(self._busy[slot]):
                self._leave(slot)
        return bool(self._busy or self._waiting)

    def _admit(self) -> None:
        """Let waiting jobs in; one that ends with its first token leaves its slot to the next."""
        while self._waiting and len(self._busy) < self._num_slots:
            num = self._num_slots - len(self._busy)
            entering = [self._waiting.popleft() for _ in range(min(num, len(self._waiting)))]
            self._prefill(entering)
            prefixes = [self._prefixes[id(job.request)] for job in entering]
            self._draw(entering, torch.stack([prefix.logits for prefix in prefixes]))
            for job, prefix in zip(entering, prefixes, strict=True):
                if not self._is_done(job):
                    self._cache.begin(len(self._busy), prefix)
                    self._busy.append(job)
            # answers to one prompt wait behind one another: only the last one's may still be wanted
            last = entering[-1].request
            self._prefixes = {id(last): self._prefixes[id(last)]}

    def _prefill(self, entering: Sequence[_Job]) -> None:
        new = {id(job.request): job.request for job in entering if id(job.request) not in self._prefixes}
        if new:
            computed = self._decoder.prefill([request.token_ids for request in new.values()])
            self._prefixes |= dict(zip(new, computed, strict=True))
            self._stats.num_prompt_tokens += sum(len(request.token_ids) for request in new.values())

    def _draw(self, jobs: Sequence[_Job], logits: Tensor) -> None:
        for job in jobs:
            if not job.numbers:
                job.numbers = uniforms(job.seed, self._sampling.max_tokens)
        numbers = torch.tensor([job.numbers[len(job.token_ids)] for job in jobs], dtype=torch.float64)
        tokens, logprobs = draw(logits, numbers, self._sampling.temperature)
        for job, token, logprob in zip(jobs, tokens.tolist(), logprobs.tolist(), strict=True):
            job.token_ids.append(token)
            job.logprobs.append(logprob)
        self._stats.num_tokens += len(jobs)

    def _is_done(self, job: _Job) -> bool:
        if job.token_ids[-1] in self._sampling.stop_token_ids:
            job.stop = StopReason.END
        elif (
            len(job.token_ids) >= self._sampling.max_tokens or job.length >= self._decoder.shape.max_positions
        ):
            job.stop = StopReason.LENGTH
        return job.stop is not StopReason.DEADLINE

    def _leave(self, slot: int) -> None:
        last = self._busy.pop()
        if slot < len(self._busy):
            self._cache.move(len(self._busy), slot, last.length - 1)
            self._busy[slot] = last
