"""Tests of serving.ledger.credentials."""

from __future__ import annotations

import secrets

import pytest

from serving.ledger.credentials import mask_credentials


def test_every_key_of_ours_is_masked() -> None:
    """Whatever the random part looks like, and whatever stands around it."""
    for _ in range(200):
        key = "tw-" + secrets.token_urlsafe(32)
        for text in (key, f"({key})", f"key={key};", f"\n{key}\n", f'"{key}"', f"x {key} y"):
            assert mask_credentials(text) == text.replace(key, "[secret]")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("authorization: Bearer abc.def-ghi", "authorization: Bearer [secret]"),
        ("bearer  abc", "bearer  [secret]"),
        ("sk-proj-abcdefghijklmnop1234", "[secret]"),
        ("postgresql://user:hunter2@db/ledger", "postgresql://[secret]@db/ledger"),
    ],
)
def test_others_credentials_are_masked_and_the_rest_stays(text: str, masked: str) -> None:
    """Bearer tokens, API keys of hosted models, users and passwords of URLs."""
    assert mask_credentials(text) == masked


def test_other_words_stay_as_they_are() -> None:
    """Names that only begin like a key, and URLs without credentials, stay readable."""
    text = "tw-short, sk-learn, task-tw-1, http://127.0.0.1:8000/v1, me@example.org, bearer"
    assert mask_credentials(text) == text
