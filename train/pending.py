"""Rollouts that wait for the learner, as plain members of a checkpoint and back again, to the bit.

A number in JSON is the shortest text that reads back as the same number, so log-probabilities and advantages stay what
they were. Rollouts of one group share their prompt again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from train.batch import Credit, Group
from train.collector import Collected
from train.curriculum import Draw
from train.domains.base import ErrorClass, Verdict
from train.rollouts.rollout import Rollout, Span, StopReason


def plain_collected(collected: Collected) -> dict[str, Any]:
    """For a checkpoint."""
    return {
        "groups": [_plain_group(group) for group in collected.groups],
        "draws": [asdict(draw) for draw in collected.draws],
        "verdicts": [[asdict(verdict) for verdict in told] for told in collected.verdicts],
        "metrics": dict(collected.metrics),
    }


def collected_of(plain: Mapping[str, Any]) -> Collected:
    """From a checkpoint."""
    return Collected(
        tuple(map(_group_of, plain["groups"])),
        tuple(Draw(**draw) for draw in plain["draws"]),
        tuple(tuple(map(_verdict_of, told)) for told in plain["verdicts"]),
        plain["metrics"],
    )


def _plain_group(group: Group) -> dict[str, Any]:
    return {
        "domain": group.domain,
        "prompt": group.prompt,
        "temperature": group.temperature,
        "credits": [
            {
                "stop": credit.rollout.stop,
                "spans": [
                    [span.token_ids, span.behavior_logprobs, span.policy_version]
                    for span in credit.rollout.spans[1:]
                ],
                "advantages": credit.advantages,
                "ce_weights": credit.ce_weights,
                "reward": credit.reward,
            }
            for credit in group.credits
        ],
    }


def _group_of(plain: Mapping[str, Any]) -> Group:
    prompt = Span(tuple(plain["prompt"]))
    credits = tuple(
        Credit(
            Rollout((prompt, *(_span_of(*span) for span in credit["spans"])), StopReason(credit["stop"])),
            tuple(credit["advantages"]),
            tuple(credit["ce_weights"]),
            credit["reward"],
        )
        for credit in plain["credits"]
    )
    return Group(plain["domain"], prompt.token_ids, credits, plain["temperature"])


def _span_of(token_ids: list[int], logprobs: list[float] | None, policy_version: int | None) -> Span:
    return Span(tuple(token_ids), None if logprobs is None else tuple(logprobs), policy_version)


def _verdict_of(plain: Mapping[str, Any]) -> Verdict:
    error = plain["error"]
    return Verdict(**{**plain, "error": None if error is None else ErrorClass(error)})
