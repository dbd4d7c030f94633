"""Tests of serving.ledger.settings."""

from __future__ import annotations

import pytest

from serving.ledger.settings import LedgerSettings


@pytest.mark.parametrize(
    ("url", "printed"),
    [
        ("postgresql+pg8000://user:hunter2@db/ledger", "postgresql+pg8000://user:***@db/ledger"),
        ("postgresql://user:hunt:er2/@x@db/ledger", "postgresql://user:***@db/ledger"),
        ("postgresql://user@db/ledger", "postgresql://user@db/ledger"),
        ("sqlite:////var/lib/tierwise/ledger.sqlite", "sqlite:////var/lib/tierwise/ledger.sqlite"),
        (None, None),
    ],
)
def test_a_password_is_masked_wherever_settings_are_printed(url: str | None, printed: str | None) -> None:
    """The URL itself stays usable; its dump, as `--print-config` prints it, and its repr do not tell the password."""
    settings = LedgerSettings(url=url)
    assert settings.url == url
    assert settings.model_dump()["url"] == printed
    assert settings.model_dump(mode="json")["url"] == printed
    assert "hunt" not in repr(settings) + str(settings) + settings.model_dump_json()
