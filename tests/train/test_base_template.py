"""The packaged model is trained with the template that it is served with, tools and all."""

from __future__ import annotations

from pathlib import Path

from serving.bringup.packaged import CHAT_TEMPLATE, SMOLLM2
from train import base


def test_template_is_the_served_one(tmp_path: Path) -> None:
    """For the packaged base that which knows tools; any other keeps its own."""
    base._take_served_template("0" * 64, tmp_path)
    assert not list(tmp_path.iterdir())
    base._take_served_template(SMOLLM2.gguf_sha256, tmp_path)
    assert (tmp_path / "chat_template.jinja").read_text() == CHAT_TEMPLATE.read_text()
    assert "tools" in CHAT_TEMPLATE.read_text()
