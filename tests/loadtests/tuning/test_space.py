"""What may be turned on which machine."""

from __future__ import annotations

import pytest

from loadtests.tuning.space import (
    Defaults,
    allowed,
    llamacpp_space,
    vllm_cpu_space,
    vllm_gpu_space,
    words,
)

TWO_CORES = llamacpp_space(Defaults(threads=2, threads_alone=1, slots=8))


def names(fixed: dict[str, int], *, only: tuple[str, ...] = (), allows_lossy: bool = False) -> list[str]:
    return [each.name for each in allowed(TWO_CORES, only=only, fixed=fixed, allows_lossy=allows_lossy)]


def test_what_the_engine_does_anyway_is_not_tried() -> None:
    """Neither are more threads than cores."""
    tried = {knob.name: knob.candidates for knob in TWO_CORES}
    assert tried["threads_alone"] == (2,)
    assert tried["threads"] == (1,)
    assert tried["slots"] == (4, 16)
    many = llamacpp_space(Defaults(threads=12, threads_alone=12, slots=8))
    assert next(knob.candidates for knob in many if knob.name == "threads") == (1, 2, 4, 6, 8, 11)


def test_one_core_has_nothing_to_choose() -> None:
    """Knobs without candidates are left out."""
    space = llamacpp_space(Defaults(threads=1, threads_alone=1, slots=8))
    left = [each.name for each in allowed(space, fixed={}, allows_lossy=False)]
    assert "threads" not in left
    assert "slots" in left


def test_rounding_is_asked_for() -> None:
    """A cache of 8 bits is tried only where lossy settings are allowed."""
    assert "compute.kv_cache_type" not in names({})
    assert "compute.kv_cache_type" in names({}, allows_lossy=True)


def test_what_is_laid_down_or_not_asked_for_is_not_searched() -> None:
    """A name that cannot be tuned is told with those that can."""
    assert "slots" not in names({"slots": 4})
    assert names({}, only=("slots", "threads")) == ["slots", "threads"]
    with pytest.raises(ValueError, match=r"prio cannot be tuned here; what can is threads_alone, "):
        names({}, only=("prio",))
    with pytest.raises(ValueError, match=r"kv_cache_type cannot be tuned"):
        names({}, only=("compute.kv_cache_type",))


@pytest.mark.parametrize("space", [TWO_CORES, vllm_cpu_space(), vllm_gpu_space()])
def test_names_are_unique(space: tuple) -> None:  # type: ignore[type-arg]
    """One knob, one name; each has something to try."""
    assert len({knob.name for knob in space}) == len(space)
    assert all(knob.candidates for knob in space)


def test_words() -> None:
    """As in TOML."""
    assert words({}) == "the default"
    assert words({"slots": 4, "compute.repack": False}) == "slots=4, compute.repack=false"
