"""What a teacher and its student have to have in common: the tokens that both speak of.

A divergence compares the two token by token. Vocabularies of one size that mean other things by it would train the
student to noise, without an error anywhere; so they are compared piece by piece, and in what they make of a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

PROBE = (
    "Ünïcode, CamelCase and snake_case:\n\tfor i in range(10_000): print(3.14, '不同', \"🙂\")  # it's 7 %\n"
)
"""Spaces, digits, marks, case and bytes outside ASCII: where tokenizers over one vocabulary part ways."""


class TokenizerMismatchError(ValueError):
    """Teacher and student do not speak of the same tokens."""


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
    ours, theirs = list(student.encode(PROBE)), list(teacher.encode(PROBE))
    if ours != theirs:
        raise TokenizerMismatchError(
            "student and teacher have one vocabulary, but cut a text into tokens differently: "
            f"{len(ours)} and {len(theirs)} tokens of the probe; take a teacher of the same family"
        )
