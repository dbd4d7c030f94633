"""The artifact: what goes in comes out, twice the same, and nothing else is taken for one."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from router.artifact import from_bytes, to_bytes
from router.artifact_header import ArmFigures, ArtifactError, ArtifactHeader
from router.boosting import BoostConfig
from router.encoding import ENCODING_VERSION
from router.fit import fit
from router.fit_config import FitConfig
from router.fitted import FittedModel
from router.histogram import reference
from router.outcome_table import OutcomeTable, view_of
from router.prepared import prepare

HEADER = ArtifactHeader(
    version="router-7",
    arms=("weak", "strong"),
    num_prompts=240,
    num_groups=240,
    data_sha256="0" * 64,
    recipe={"penalty": 1.0},
    metrics={"apgr": 0.6},
    models={"weak": "small.gguf"},
    figures={
        arm: ArmFigures(
            num_outcomes=240,
            success_share=0.5,
            auc=0.7,
            brier_score=0.2,
            calibration_error=0.03,
            calibration_noise=0.02,
        )
        for arm in ("weak", "strong")
    },
    feature_references={"words": reference([1.0, 2.0, 3.0, 4.0])},
    score_references={"weak": reference([0.1, 0.2, 0.9])},
)


def outcomes(num: int) -> OutcomeTable:
    generator = np.random.default_rng(0)
    words = "prove colour integral city matrix song theorem river lemma fruit the of in about".split()  # noqa: SIM905
    prompts = tuple(" ".join(generator.choice(words, 15)) for _ in range(num))
    hardness = (
        np.array([sum(prompt.count(word) for word in ("prove", "matrix", "lemma")) for prompt in prompts]) / 9
    )
    tokens = np.full((num, 2), np.nan)
    tokens[:, 1] = 20 + 100 * hardness
    return OutcomeTable(
        prompts=prompts,
        domains=("d",) * num,
        arms=("weak", "strong"),
        successes=(
            generator.random((num, 2)) < np.stack((0.9 - hardness, 0.9 - hardness / 4), axis=1)
        ).astype(float),
        num_output_tokens=tokens,
        costs=np.full((num, 2), np.nan),
    )


@pytest.fixture(scope="module")
def model() -> FittedModel:
    config = FitConfig(num_folds=3, max_steps=20, boosting=BoostConfig(num_trees=10))
    return fit(prepare(outcomes(240)), config, version="router-7")


@pytest.fixture(scope="module")
def file(model: FittedModel) -> bytes:
    return to_bytes(model, HEADER)


def test_comes_out_as_it_went_in(model: FittedModel, file: bytes) -> None:
    """The model read back gives the probabilities and tokens of the one written, within 16-bit weights."""
    back, header = from_bytes(file)
    assert header == HEADER
    for prompt in ("prove the lemma", "a song about a river", "ὕδωρ 42"):
        encoded = prepare(replace(outcomes(1), prompts=(prompt,))).encoded[0]
        assert back.probabilities(encoded) == pytest.approx(model.probabilities(encoded), abs=2e-3)
        assert back.contributions(view_of(prompt)) == pytest.approx(
            model.contributions(view_of(prompt)), abs=2e-2
        )
    assert back.by_arm[0].tokens is None
    assert back.by_arm[1].tokens == replace(model.by_arm[1].tokens, weights=back.by_arm[1].tokens.weights)


def test_writing_again_changes_nothing(file: bytes) -> None:
    """What was read is written as the same arrays, so a copy of an artifact is the artifact."""
    again = to_bytes(*from_bytes(file))
    with np.load(io.BytesIO(file)) as one, np.load(io.BytesIO(again)) as other:
        assert sorted(one.files) == sorted(other.files)
        for name in one.files:
            assert np.array_equal(one[name], other[name]), name


def altered(file: bytes, **changes: Any) -> bytes:
    """The file with arrays replaced; None removes one."""
    with np.load(io.BytesIO(file)) as archive:
        arrays = {name: archive[name] for name in archive.files} | changes
    buffer = io.BytesIO()
    np.savez(buffer, **{name: array for name, array in arrays.items() if array is not None})
    return buffer.getvalue()


def with_header(file: bytes, **changes: Any) -> bytes:
    with np.load(io.BytesIO(file)) as archive:
        header = json.loads(archive["header"].tobytes()) | changes
    return altered(file, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))


def test_other_encoding_is_refused(file: bytes) -> None:
    """An artifact fitted on other features is refused with both versions and what to do."""
    with pytest.raises(ArtifactError, match=rf"fitted on structure-0, .*{ENCODING_VERSION}; fit it again"):
        from_bytes(with_header(file, encoding_version="structure-0"))


def test_other_schema_is_refused(file: bytes) -> None:
    """An artifact of another schema is refused."""
    with pytest.raises(ArtifactError, match="schema 99"):
        from_bytes(with_header(file, schema=99))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": None}, "weights"),
        ({"intercepts": np.array([0.0, np.nan])}, "not finite"),
        ({"feature_mean": np.zeros(3)}, "shape"),
        ({"used_columns": np.array([2**31], dtype=np.uint32), "weights": np.zeros((1, 2))}, "damaged"),
        ({"arm1_tree_leaves": np.zeros((1, 2))}, "shape"),
        ({"header": np.array([1, 2, 3], dtype=np.uint8)}, "damaged"),
        ({"arm0_line": np.array([{}], dtype=object)}, "damaged"),
    ],
)
def test_damage_is_refused(file: bytes, changes: dict[str, Any], message: str) -> None:
    """Missing, misshapen or infinite arrays are refused, and pickled objects are never loaded."""
    with pytest.raises(ArtifactError, match=message):
        from_bytes(altered(file, **changes))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"not a zip at all" * 10])
def test_anything_else_is_refused(data: bytes) -> None:
    """A file that is no archive is no artifact."""
    with pytest.raises(ArtifactError, match="not a router artifact"):
        from_bytes(data)


def test_cut_file_is_refused(file: bytes) -> None:
    """Half a download is refused."""
    with pytest.raises(ArtifactError):
        from_bytes(file[: len(file) // 2])
