"""What `tierwise distill quantize` found of a file or directory that it left, so that nobody measures it again.

It is known by the hash of its weights: of what only has the same name nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pydantic import TypeAdapter

from distill.evaluate import Comparison, Side
from distill.hashes import hash_of_path
from distill.paired import Estimate
from distill.quantization.report import REPORT_NAME, WHOLE, Quantised, Report
from train.evaluate import Evaluation
from train.run_directory import RunError


@dataclass(frozen=True, slots=True)
class Known:
    """A line of a report, with the report that it is in."""

    report: Report
    line: Quantised

    def comparison(self, teacher_sha256: str) -> Comparison | None:
        """Its verified scores beside those of the model that it was made of, as `evaluate` would have them.

        Args:
            teacher_sha256: of the full model's weights. None is known where that is not what was quantised, and where
                no scores were asked for.
        """
        mine, whole, kept = self.line.evaluation, self.report.evaluation, self.line.kept
        if teacher_sha256 != self.report.sha256 or mine is None or whole is None or kept is None:
            return None
        return Comparison(
            candidate=_side(self.line.file, mine), teacher=_side(WHOLE, whole), kept=kept, nearness=None
        )


def known_of(candidate: Path) -> Known | None:
    """What the report beside a file or directory says of it; None where there is none, or it is of other weights.

    Raises:
        RunError: the report cannot be read.
    """
    path = candidate.parent / REPORT_NAME
    if not path.exists():
        return None
    try:
        report = TypeAdapter(Report).validate_json(path.read_bytes())
    except ValueError as error:
        first = str(error).splitlines()[0]
        raise RunError(
            f"{path} is no report that `tierwise distill quantize` writes ({first}); quantise again, or move it away"
        ) from None
    lines = [line for line in report.types if line.file == candidate.name]
    return next((Known(report, line) for line in lines if line.sha256 == hash_of_path(candidate)), None)


def _side(name: str, evaluation: Evaluation) -> Side:
    macro = evaluation.greedy
    mean_tokens = fmean(domain.mean_tokens for domain in evaluation.domains)
    return Side(name, evaluation.domains, Estimate(macro.mean, macro.low, macro.high), mean_tokens)
