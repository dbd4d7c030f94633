"""Steps of reinforcement against TRL's GRPOTrainer: same checkpoint, prompts, sizes and machine, in one run.

What is the same, or the comparison would say nothing:

- the work: as many answers of as many tokens at most to the same prompts, token for token (checked), at temperature 1
  without top-k or top-p; then one step of AdamW of Dr. GRPO on all of them, without a reference, on the same layers;
- the numbers: single precision, on the CPU, with as many threads (checked); no gradient checkpointing, no dropout;
- the reward: a number that differs from answer to answer, so that every group has a gradient and neither side may skip
  one; it takes no time to speak of;
- the clock: both are timed in each repetition, the first step of each left out; whose turn is first alternates, what
  the other left in memory is gone before, and other answers are drawn in each repetition. Ratios are within one.

What differs is what is compared: how answers are sampled, what is computed once, and how a gradient is taken. TRL
computes a step's answers as one batch; ours are cut by `micro_batch_tokens`. TRL is imported when called, and not
before.
"""

from __future__ import annotations

import gc
import hashlib
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from train.advantages import centred
from train.batch import Credit, Group
from train.codec import ChatCodec, CodecError
from train.learner import Learner, LearnerConfig
from train.losses import Objective
from train.model.policy import LlamaPolicy
from train.model.trainable import train_top_layers
from train.model.weights import load_llama
from train.rollouts.in_process import InProcessSampler
from train.rollouts.rollout import Rollout, SampleRequest, Sampling, Span
from train.seeds import seed_of
from train.transcript import Message

LEARNING_RATE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What both sides do."""

    num_prompts: int = 8
    """A step."""
    num_answers: int = 8
    """To each prompt."""
    max_tokens: int = 16
    num_layers: int = 10
    """That move, from the top."""
    num_steps: int = 2
    """That are timed, in each repetition; one more goes before them."""
    num_repetitions: int = 3
    micro_batch_tokens: int = 2048
    """Of ours; TRL takes a step's answers as one batch."""


@dataclass(frozen=True, slots=True)
class Pace:
    """One side in one repetition."""

    num_rollouts: int
    num_tokens: int
    """Of answers, sampled and trained on."""
    wall_s: float
    cpu_s: float
    """Of the process: with one thread, what a busy machine hardly changes."""

    @property
    def rollouts_per_s(self) -> float:
        """Sampled, scored and learned from."""
        return self.num_rollouts / self.wall_s

    @property
    def tokens_per_s(self) -> float:
        """Trained on, sampling included in the time."""
        return self.num_tokens / self.wall_s

    @property
    def rollouts_per_cpu_s(self) -> float:
        """As `rollouts_per_s`."""
        return self.num_rollouts / self.cpu_s

    @property
    def tokens_per_cpu_s(self) -> float:
        """As `tokens_per_s`."""
        return self.num_tokens / self.cpu_s


@dataclass(frozen=True, slots=True)
class Race:
    """Both sides, repetition by repetition."""

    ours: tuple[Pace, ...]
    trl: tuple[Pace, ...]

    def ratio(self, rate: str) -> float:
        """Median over repetitions of ours by TRL's; `rate` is a rate of `Pace`."""
        rates = {
            "rollouts_per_s": lambda pace: pace.rollouts_per_s,
            "tokens_per_s": lambda pace: pace.tokens_per_s,
            "rollouts_per_cpu_s": lambda pace: pace.rollouts_per_cpu_s,
            "tokens_per_cpu_s": lambda pace: pace.tokens_per_cpu_s,
        }
        return median(
            rates[rate](one) / rates[rate](other) for one, other in zip(self.ours, self.trl, strict=True)
        )


def reward_of(token_ids: Sequence[int]) -> float:
    """A number in [0, 1) that depends on every token and on nothing else."""
    digest = hashlib.blake2b(repr(tuple(token_ids)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32


def race(
    directory: Path,
    prompts: Sequence[str],
    load: Load,
    *,
    on_pace: Callable[[str, int, Pace], None] = lambda *_: None,
) -> Race:
    """Time both sides in turn.

    Args:
        directory: of a checkpoint in Hugging Face's form.
        prompts: users' messages, at least as many as a step takes; the first so many are used.
        load: what both do.
        on_pace: told of a side's name, the repetition and its pace, as soon as it is known.

    Raises:
        ValueError: there are too few prompts.
        CodecError: the two sides read them as other tokens.
    """
    if len(prompts) < load.num_prompts:
        raise ValueError(f"{len(prompts)} prompts, and a step takes {load.num_prompts}")
    used = list(prompts[: load.num_prompts])
    sides = {"tierwise": _ours, "trl": _trl}
    paces: dict[str, list[Pace]] = {name: [] for name in sides}
    for repetition in range(load.num_repetitions):
        for name in list(sides) if repetition % 2 == 0 else reversed(sides):
            gc.collect()  # a trainer is a cycle, with a model in it
            paces[name].append(sides[name](directory, used, load, repetition))
            on_pace(name, repetition, paces[name][-1])
    return Race(tuple(paces["tierwise"]), tuple(paces["trl"]))


def _ours(directory: Path, prompts: Sequence[str], load: Load, seed: int) -> Pace:
    model, codec = load_llama(directory), ChatCodec(directory)
    train_top_layers(model, load.num_layers)
    sampler = InProcessSampler(model, num_slots=load.num_prompts * load.num_answers)
    config = LearnerConfig(
        objective=Objective.DR_GRPO,
        learning_rate=LEARNING_RATE,
        micro_batch_tokens=load.micro_batch_tokens,
        max_tokens=load.max_tokens,
    )
    learner = Learner(LlamaPolicy(model), config)
    sampling = Sampling(max_tokens=load.max_tokens, stop_token_ids=(codec.end_token_id,))
    num_tokens, began = 0, _now()
    for step in range(load.num_steps + 1):
        if step == 1:
            num_tokens, began = 0, _now()
        sampler.update(step)
        requests = [
            SampleRequest(
                codec.prompt([Message("user", prompt)]),
                tuple(seed_of(seed, step, place, each) for each in range(load.num_answers)),
            )
            for place, prompt in enumerate(prompts)
        ]
        groups = [
            _group(request, [Rollout((Span(request.token_ids), span), stop) for span, stop in spans])
            for request, spans in zip(requests, sampler.sample(requests, sampling), strict=True)
        ]
        learner.step(groups)
        num_tokens += sum(len(credit.token_ids) for group in groups for credit in group.credits)
    return _pace(load, num_tokens, began, _now())


def _group(request: SampleRequest, rollouts: Sequence[Rollout]) -> Group:
    advantages = centred([reward_of(rollout.spans[1].token_ids) for rollout in rollouts])
    credits = tuple(
        Credit(rollout, (float(advantage),) * rollout.num_sampled, (0.0,) * rollout.num_sampled)
        for rollout, advantage in zip(rollouts, advantages, strict=True)
    )
    return Group("benchmark", request.token_ids, credits)


def _trl(directory: Path, prompts: Sequence[str], load: Load, seed: int) -> Pace:
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    num_threads = torch.get_num_threads()
    lengths: list[int] = []
    times: list[tuple[float, float]] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(_now())
            if len(times) == 1:
                lengths.clear()

    def reward(*, completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        lengths.extend(map(len, completion_ids))
        return list(map(reward_of, completion_ids))

    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    model.requires_grad_(False)
    model.model.layers[-load.num_layers :].requires_grad_(True)
    model.model.norm.requires_grad_(True)
    num = load.num_prompts * load.num_answers
    with tempfile.TemporaryDirectory() as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TRL's own, which are not ours to mend
        config = GRPOConfig(
            output_dir=out,
            per_device_train_batch_size=num,
            num_generations=load.num_answers,
            max_completion_length=load.max_tokens,
            max_steps=load.num_steps + 1,
            learning_rate=LEARNING_RATE,
            loss_type="dr_grpo",
            scale_rewards="none",
            beta=0.0,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            seed=seed,
            use_cpu=True,  # as ours is
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            shuffle_dataset=False,
        )
        tokenizer = AutoTokenizer.from_pretrained(directory)
        rows = [{"prompt": [{"role": "user", "content": prompt}]} for prompt in prompts]
        _check_same_tokens(directory, tokenizer, [row["prompt"] for row in rows])
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_list(rows * (load.num_steps + 1)),
            processing_class=tokenizer,
            callbacks=[Clock()],
        )
        trainer.train()
    assert torch.get_num_threads() == num_threads, "the library has changed how many threads compute"
    return _pace(load, sum(lengths), times[0], times[-1])


def _check_same_tokens(
    directory: Path, tokenizer: Any, conversations: Sequence[Sequence[dict[str, str]]]
) -> None:
    """Both sides are asked the same, as TRL renders it and as we do.

    Raises:
        CodecError: they are not.
    """
    codec = ChatCodec(directory)
    for conversation in conversations:
        theirs = tokenizer.apply_chat_template(conversation, add_generation_prompt=True, return_dict=True)
        ours = codec.prompt([Message("user", conversation[0]["content"])])
        if tuple(theirs["input_ids"]) != ours:
            raise CodecError(f"{directory}: the sides read {conversation[0]['content']!r} as other tokens")


def _now() -> tuple[float, float]:
    """By the wall clock, and by the processor's."""
    return time.perf_counter(), time.process_time()


def _pace(load: Load, num_tokens: int, began: tuple[float, float], ended: tuple[float, float]) -> Pace:
    num_rollouts = load.num_steps * load.num_prompts * load.num_answers
    return Pace(num_rollouts, num_tokens, ended[0] - began[0], ended[1] - began[1])
