"""What a teacher does, and what it and its student have to have in common: the tokens that both speak of.

A teacher is in this process (`whole_teacher`), or an engine (`engine_teacher`). A divergence compares the two token by
token. Vocabularies of one size that mean other things by it would train the student to noise, without an error
anywhere; so they are compared piece by piece, and in what they make of a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from distill.divergence import TeacherScores
    from train.model.policy import Line
    from train.rollouts.rollout import Sampler

PROBE = (
    "Ünïcode, CamelCase and snake_case:\n\tfor i in range(10_000): print(3.14, '不同', \"🙂\")  # it's 7 %\n"
)
"""Spaces, digits, marks, case and bytes outside ASCII: where tokenizers over one vocabulary part ways."""


class TokenizerMismatchError(ValueError):
    """Teacher and student do not speak of the same tokens."""


class Teacher(Protocol):
    """Whom a student learns from."""

    @property
    def sampler(self) -> Sampler:
        """Draws its own answers."""
        ...

    def read(self, line: Line, depths: Sequence[int]) -> tuple[TeacherScores, list[Tensor]]:
        """What it says at the line's predictors, and its states behind so many layers.

        States are of every token, (tokens, E), and behind the last layer of the predictors alone, (rows, E).

        Args:
            line: of texts.
            depths: rising; an engine tells no states, and is asked for none.
        """
        ...


class Tokenizer(Protocol):
    """What is compared; a `transformers` tokenizer is one."""

    def get_vocab(self) -> Mapping[str, int]:
        """Each piece and its id."""
        ...

    def encode(self, text: str) -> Sequence[int]:
        """The text's ids."""
        ...


def require_same_tokens(student: Tokenizer, teacher: Tokenizer) -> None:
    """Compare vocabularies and what becomes of `PROBE`.

    Raises:
        TokenizerMismatchError: they differ; the message says where.
    """
    mine, other = student.get_vocab(), teacher.get_vocab()
    apart = [piece for piece in mine.keys() | other.keys() if mine.get(piece) != other.get(piece)]
    if apart:
        piece = min(apart)
        raise TokenizerMismatchError(
            f"student and teacher have different tokenizers: {len(apart)} pieces differ, {piece!r} for one is "
            f"{mine.get(piece)} to the student and {other.get(piece)} to the teacher; take a teacher of the same family"
        )
    require_same_cuts(list(student.encode(PROBE)), list(teacher.encode(PROBE)))


def require_same_cuts(student: Sequence[int], teacher: Sequence[int]) -> None:
    """Compare what both make of `PROBE`; of an engine that is all that can be had.

    Raises:
        TokenizerMismatchError: they differ.
    """
    if student != teacher:
        raise TokenizerMismatchError(
            "student and teacher cut a text into tokens differently: "
            f"{len(student)} and {len(teacher)} tokens of the probe; take a teacher of the same family"
        )
