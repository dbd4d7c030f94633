"""What `tierwise distill cost-model` predicted, out of the JSON that it prints."""

from __future__ import annotations

from pathlib import Path

import orjson


def read_predictions(path: Path, *, num_drafts: int) -> dict[str, float]:
    """Domain → predicted speed-up of one stream with so many drafted tokens a round.

    Raises:
        ValueError: it cannot be read, is no such JSON, or predicts nothing for this number.
    """
    try:
        told = orjson.loads(path.read_bytes())["predictions"]
        found = {(each["num_streams"], each["num_drafts"]): each["speed_ups"] for each in told}
        return {domain: float(value) for domain, value in found[1, num_drafts].items()}
    except (OSError, orjson.JSONDecodeError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} has no predictions ({error}): name the JSON of `distill cost-model`"
        ) from None
    except KeyError as error:
        raise ValueError(
            f"{path} has no predictions of {num_drafts} drafts for 1 stream ({error}): "
            f"run `tierwise distill cost-model` with --drafts {num_drafts}"
        ) from None
