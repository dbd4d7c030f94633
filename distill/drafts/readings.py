"""What a target computed of texts, kept on disk up to a bound; what does not fit is computed again.

A reading from disk is the reading to the bit, so a run's numbers do not depend on the bound.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from safetensors.torch import load_file, save_file

from distill.calibration import CalibrationText
from distill.drafts.unrolled import ReadText, read
from train.model.llama import Llama


class Readings:
    """Readings of some texts by their place.

    Args:
        target: reads; its weights do not change.
        texts: each with something drafted.
        layers: behind which states are taken.
        directory: where they are kept, by this target and for these texts alone.
        max_bytes: of all files; 0 keeps none.
    """

    def __init__(
        self,
        target: Llama,
        texts: Sequence[CalibrationText],
        layers: Sequence[int],
        directory: Path,
        max_bytes: int,
    ) -> None:
        self._target = target
        self._texts = texts
        self._layers = layers
        self._directory = directory
        self._max_bytes = max_bytes
        directory.mkdir(parents=True, exist_ok=True)
        self._num_bytes = sum(path.stat().st_size for path in directory.glob("*.safetensors"))

    def __getitem__(self, index: int) -> ReadText:
        """The reading of a text."""
        text = self._texts[index]
        path = self._directory / f"{index:06d}.safetensors"
        if path.exists():
            kept = load_file(path)
            return ReadText(text, kept["fused"], kept["hidden"])
        found = read(self._target, text, self._layers)
        if self._num_bytes + found.fused.nbytes + found.hidden.nbytes <= self._max_bytes:
            part = path.with_suffix(f".part-{os.getpid()}")
            save_file({"fused": found.fused.contiguous(), "hidden": found.hidden.contiguous()}, part)
            part.rename(path)  # whoever is killed while writing leaves nothing that is read
            self._num_bytes += path.stat().st_size
        return found
