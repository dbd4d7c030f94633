"""Advantages of single tokens from a critic's values: generalised advantage estimation (arXiv 1506.02438)."""

from __future__ import annotations

import numpy as np

from train.advantages import Floats


def gae(values: Floats, reward: float, *, discount: float, trace: float) -> Floats:
    """A_t = Σ_l (γλ)^l δ_(t+l) with δ_t = r_t + γ·V_(t+1) − V_t; (tokens,), of one rollout that has come to its end.

    The reward falls on the last token, behind which nothing has a value. Token after token is counted as the policy
    chose them: what stands between two of them, a tool's result, is a part of the state that the second is chosen in.

    Args:
        values: (tokens,), of the state that each sampled token was chosen in; at least one.
        reward: of the whole rollout.
        discount: γ, for each token; 1 values a late reward as an early one.
        trace: λ. 1 gives the discounted reward less the value, 0 the error of one step.
    """
    errors = discount * np.append(values[1:], 0.0) - values
    errors[-1] += reward
    advantages = np.empty_like(errors)
    following = 0.0
    for place in range(len(errors) - 1, -1, -1):
        following = errors[place] + discount * trace * following
        advantages[place] = following
    return advantages
