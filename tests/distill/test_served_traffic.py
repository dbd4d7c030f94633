"""What was served is trained on only where it was stored and exported with its prompts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from distill.served_traffic import SERVED, TrafficError, served_prompts
from router.prompts import prompt_set
from serving.commands import route
from serving.commands.ledger import main
from serving.ledger.records import DecisionRecord
from serving.ledger.settings import LedgerSettings
from serving.ledger.store import Ledger
from tests.ledger_records import DECISION


def asked(prompt: str | None, status: int = 200, endpoint: str = "chat") -> DecisionRecord:
    return replace(DECISION, prompt=prompt, status=status, endpoint=endpoint)


def serve(home: Path, records: list[DecisionRecord], *, store_prompts: bool) -> None:
    """Write them as a gateway does."""
    ledger = Ledger(LedgerSettings(store_prompts=store_prompts), home)
    for record in records:
        ledger.record_decision(record)
    ledger.close()


def export(home: Path, *options: str) -> tuple[int, Path]:
    out = home / "served.jsonl"
    return main(["export", "--out", str(out), "--home", str(home), *options]), out


def test_what_a_ledger_exports_is_what_is_read(tmp_path: Path) -> None:
    """Byte for byte, whatever a prompt holds; each once, of requests that were answered, and none that is held out."""
    texts = ["What is rain?", 'a\u2028b\u0085c\x0bd\r\ne\tf"g\\h', "Wie groß? 🌧", "  spaces  "]
    records = [
        *(asked(text) for text in [*texts, "What is rain?", "2+2="]),
        asked("too much", status=503),
        asked("a vector, please", endpoint="embeddings"),
        asked(None),
        asked(""),
    ]
    serve(tmp_path, records, store_prompts=True)
    status, out = export(tmp_path, "--prompts")
    assert status == 0
    found = served_prompts(out, without={"2+2="})
    assert [prompt.text for prompt in found] == texts
    assert {prompt.domain for prompt in found} == {SERVED}


@pytest.mark.parametrize("name", ["made.jsonl", "made.jsonl.gz"])
def test_prompts_that_nobody_asked_yet(tmp_path: Path, name: str) -> None:
    """As `tierwise route prompts` writes them, plain and packed; a packed file that was cut is refused."""
    out = tmp_path / name
    assert route.main(["prompts", "--domains", "sums,capitals", "--n", "9", "--out", str(out)]) == 0
    found = [prompt.text for prompt in served_prompts(out)]
    assert found == [item.prompt for item in prompt_set(9, seed=0, domains=("sums", "capitals"))]
    if name.endswith(".gz"):
        out.write_bytes(out.read_bytes()[:-20])
        with pytest.raises(TrafficError, match="cannot be read"):
            served_prompts(out)


def test_an_export_without_prompts_says_how_to_have_them(tmp_path: Path) -> None:
    """They are stored, and were not asked for."""
    serve(tmp_path, [asked("What is rain?")], store_prompts=True)
    status, out = export(tmp_path)
    assert status == 0
    assert "rain" not in out.read_text()
    with pytest.raises(TrafficError, match=r"exported without prompts; .*export --out FILE --prompts"):
        served_prompts(out)


def test_prompts_that_were_not_stored_cannot_be_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The export is refused with the setting's name, and nothing is written."""
    serve(tmp_path, [asked("What is rain?")], store_prompts=False)
    status, out = export(tmp_path, "--prompts")
    assert status == 1
    assert "store_prompts = true" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"prompt": None}, {"prompt": ""}], "none of 2 requests has its prompt.*store_prompts = true"),
        ([], "none of 0 requests"),
        ([{}], "exported without prompts"),
        (["{\n"], "served.jsonl:1 is no JSON"),
        ([{"prompt": "Who?"}, "\n"], "served.jsonl:2 is no JSON"),
        ([b"\xff\n"], "served.jsonl:1 is no JSON"),
        (["[]\n"], "served.jsonl:1 is no object"),
        (['{"question": "Who?"}\n'], "served.jsonl:1 is no decision; .*tierwise ledger export"),
        (['{"prompt": "Who?", "status": 200}\n'], "served.jsonl:1 is no decision; .*tierwise ledger export"),
        (None, "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_said(
    tmp_path: Path, lines: list[dict[str, object] | str | bytes] | None, said: str
) -> None:
    """With the line, and what writes a file that can be read."""
    export = tmp_path / "served.jsonl"
    if lines is not None:
        export.write_bytes(b"".join(map(_line, lines)))
    with pytest.raises(TrafficError, match=said):
        served_prompts(export)


def _line(line: dict[str, object] | str | bytes) -> bytes:
    if isinstance(line, dict):
        line = json.dumps({"endpoint": "chat", "status": 200, **line}) + "\n"
    return line.encode() if isinstance(line, str) else line
