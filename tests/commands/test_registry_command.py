"""`tierwise registry`: what each sub-verb prints, changes and returns."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serving.commands.registry import EXAMPLES, main
from serving.registry.store import Store

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def run(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Run:
    """Run a sub-verb on a registry of its own; exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TIERWISE_")]:
        monkeypatch.delenv(name)

    def call(verb: str, *argv: str) -> tuple[int, str, str]:
        status = main([verb, "--home", str(home), *argv])
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def publish(run: Run, tmp_path: Path) -> Callable[..., str]:
    """Publish one file and say its reference."""

    def make(content: str, *argv: str) -> str:
        source = tmp_path / "model.gguf"
        source.write_text(content)
        (tmp_path / "list.json").write_text("[1]")
        fields = ("--name", "m", "--kind", "policy", "--format", "gguf", "--licence", "MIT")
        status, out, err = run("publish", str(source), *fields, *argv, "--json")
        assert status == 0, err
        return str(json.loads(out)["reference"])

    return make


def test_publish_records_what_it_is_told(run: Run, publish: Callable[..., str], tmp_path: Path) -> None:
    """Every option of `publish` ends up in the manifest that `show` prints."""
    (tmp_path / "recipe.json").write_text('{"steps": 120}')
    base = publish("base", "--version", "v0", "--alias", "base@stable", "--reason", "the first")
    child = publish(
        "child", "--version", "v1", "--parent", "base@stable=base", "--recipe", "recipe.json", "--quantization", "Q4_0",
        "--data-sha256", "a" * 64, "--tokenizer-sha256", "b" * 64, "--metric", "sums.pass_at_1=0.42",
        "--metric", "sums.pass_at_4=0.5", "--metric", "sql.exact=1",
    )  # fmt: skip
    assert (base, child) == ("m:v0", "m:v1")
    status, out, _ = run("show", "m:v1", "--json")
    shown = json.loads(out)
    assert status == 0
    assert shown["parents"] == [{"name": "m", "version": "v0", "role": "base"}]
    assert shown["recipe"] == {"steps": 120}
    assert shown["metrics"] == {"sums": {"pass_at_1": 0.42, "pass_at_4": 0.5}, "sql": {"exact": 1.0}}
    assert (shown["data_sha256"], shown["tokenizer_sha256"]) == ("a" * 64, "b" * 64)
    _, text, _ = run("show", "base@stable")
    for word in ("m:v0", "base@stable", "MIT", "model.gguf", "policy"):
        assert word in text


def test_list_shows_versions_aliases_and_damage(run: Run, publish: Callable[..., str], home: Path) -> None:
    """An empty registry says what to do; a full one lists everything, what cannot be read too."""
    assert "tierwise up" in run("list")[1]
    publish("1", "--version", "v1", "--alias", "full@stable")
    publish("2", "--version", "v2")
    manifest = home / "registry" / "artifacts" / "m" / "v2" / "manifest.json"
    manifest.chmod(0o644)
    manifest.write_text("{")
    status, text, _ = run("list")
    first, second = [line for line in text.splitlines() if "m:v" in line]
    assert status == 0
    assert "full@stable" in first
    assert "damaged" in second
    rows = json.loads(run("list", "--json")[1])
    assert [(row["reference"], row["aliases"], "damage" in row) for row in rows] == [
        ("m:v1", ["full@stable"], False),
        ("m:v2", [], True),
    ]


def test_aliases_are_set_listed_rolled_back_and_removed(run: Run, publish: Callable[..., str]) -> None:
    """The whole life of an alias, with who did what and why in its history."""
    me = pwd.getpwuid(os.getuid()).pw_name
    assert "no alias exists yet" in run("alias")[1]
    publish("1", "--version", "v1")
    publish("2", "--version", "v2", "--alias", "full@canary")
    assert run("alias", "full@stable=m:v1")[0] == 0
    status, text, _ = run("alias", "full@stable=full@canary", "--reason", "better at sums")
    assert status == 0
    assert all(word in text for word in ("full@stable", "m:v2", me, "better at sums"))
    assert "canary" not in text
    assert run("rollback", "full@stable", "--reason", "not so")[1] == "full@stable is m:v1 again\n"
    assert run("alias", "--remove", "full@canary")[0] == 0
    shown = json.loads(run("alias", "--history", "--json")[1])
    assert {text: alias["target"] for text, alias in shown.items()} == {
        "full@canary": None,
        "full@stable": "m:v1",
    }
    changes = shown["full@stable"]["changes"]
    assert [
        (change["action"], change["previous"], change["target"], change["reason"]) for change in changes
    ] == [
        ("set", None, "m:v1", ""),
        ("set", "m:v1", "m:v2", "better at sums"),
        ("rollback", "m:v2", "m:v1", "not so"),
    ]
    assert {change["by"] for change in changes} == {me}
    history = run("alias", "--history")[1]
    assert history.count("full@stable") == 3
    assert "nothing (removed)" in run("alias")[1]


def test_verify_finds_and_discards_damage(run: Run, publish: Callable[..., str], home: Path) -> None:
    """One flipped byte: `verify` names the file and returns 1, `--discard` removes the version and no other."""
    publish("whole", "--version", "v1")
    publish("broken", "--version", "v2")
    assert run("verify")[0] == 0
    weights = home / "registry" / "artifacts" / "m" / "v2" / "model.gguf"
    weights.chmod(0o644)
    weights.write_text("brokem")
    status, text, _ = run("verify")
    assert status == 1
    assert "m:v1  whole" in text
    assert "v2/model.gguf is damaged" in text
    assert run("verify", "m:v1")[0] == 0
    assert json.loads(run("verify", "--json")[1])[0] == {"reference": "m:v1", "damage": None}
    assert "[discarded]" in run("verify", "--discard")[1]
    assert run("verify")[1] == "m:v1  whole\n"


def test_gc_removes_what_its_dry_run_says(run: Run, publish: Callable[..., str], home: Path) -> None:
    """Young versions stay unless told otherwise; what goes is named first and then gone."""
    for version in ("v1", "v2", "v3"):
        publish(version, "--version", version, "--alias", "full@stable")
    publish("stray", "--version", "stray")
    assert json.loads(run("gc", "--json")[1])["removed"] == []
    dry = json.loads(run("gc", "--keep", "1", "--min-age", "0", "--dry-run", "--json")[1])
    assert (dry["removed"], dry["dry_run"]) == (["m:stray", "m:v1"], True)
    text = run("gc", "--keep", "1", "--min-age", "0")[1]
    assert text.splitlines()[:2] == ["removed m:stray", "removed m:v1"]
    assert [str(reference) for reference in Store(home / "registry").references()] == ["m:v2", "m:v3"]


PUBLISH = ("publish", "model.gguf", "--name", "n", "--kind", "base", "--format", "gguf", "--licence", "MIT")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("show", "ful@stable"), "did you mean 'full@stable'?"),
        (("show", "m:v9"), "did you mean 'm:v1'?"),
        (("show", "./model.gguf"), "is a path"),
        (("alias", "full@stable"), "write full@stable=name:version"),
        (("alias", "full=m:v1"), "full@stable"),
        (("alias", "full@stable=m:v7"), "no m:v7"),
        (("alias", "--remove", "fast@stable"), "no alias fast@stable"),
        (("rollback", "full@stable"), "has no earlier target"),
        (("verify", "nothing:here"), "no nothing:here"),
        ((*PUBLISH, "--parent", "m:v1"), "write it as REFERENCE=ROLE"),
        ((*PUBLISH, "--parent", "m:v8=base"), "no m:v8"),
        ((*PUBLISH, "--metric", "pass=1"), "DOMAIN.METRIC=VALUE"),
        ((*PUBLISH, "--metric", "sums.pass=high"), "DOMAIN.METRIC=VALUE"),
        ((*PUBLISH, "--metric", "sums.pass=nan"), "--metrics"),
        ((*PUBLISH, "--recipe", "no.json"), "No such file"),
        ((*PUBLISH, "--recipe", "model.gguf"), "not valid JSON"),
        ((*PUBLISH, "--recipe", "list.json"), "--recipe"),
        ((*PUBLISH, "--data-sha256", "abc"), "--data-sha256"),
        ((*PUBLISH, "--alias", "full"), "not a reference"),
        ((*PUBLISH[:3], "UPPER", *PUBLISH[4:]), "--name"),
        (("publish", "no-such-file", *PUBLISH[2:]), "neither a file nor a directory"),
        (("publish", "model.gguf", "--name", "m", *PUBLISH[4:], "--version", "v1"), "choose another version"),
    ],
)
def test_wrong_use_is_one_line_with_a_remedy(
    run: Run, publish: Callable[..., str], argv: tuple[str, ...], words: str
) -> None:
    """Each mistake returns 1, says one line on stderr, prints nothing, and changes nothing."""
    publish("one", "--version", "v1", "--alias", "full@stable")
    before = run("list", "--json")[1], run("alias", "--history", "--json")[1]
    status, out, err = run(*argv)
    assert (status, out) == (1, "")
    assert err.startswith("tierwise: ")
    assert err.count("\n") == 1
    assert words in err
    assert (run("list", "--json")[1], run("alias", "--history", "--json")[1]) == before


def test_home_comes_from_the_settings(
    run: Run, publish: Callable[..., str], home: Path, monkeypatch: Any
) -> None:
    """Without --home the registry is the one that `serve` would use: the environment's."""
    publish("1", "--version", "v1")
    monkeypatch.setenv("TIERWISE_HOME", str(home))
    assert main(["show", "m:v1"]) == 0
    assert main(["show", "m:v2"]) == 1


@pytest.mark.parametrize("verb", sorted(EXAMPLES))
def test_help_teaches(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every --help says what the sub-verb does and ends with an example of it."""
    with pytest.raises(SystemExit) as ended:
        main([*verb.split(), "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert f"tierwise registry {verb}".strip() in text.rsplit("example", 1)[1]


@pytest.mark.parametrize("argv", [[], ["lst"], ["gc", "--keep", "-1"], ["show"], ["publish", "x"]])
def test_wrong_options_are_2(argv: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """What the parser refuses is wrong use: 2, with the usage."""
    monkeypatch.setenv("TIERWISE_HOME", "/dev/null")  # a registry that nothing can be done to
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "usage: tierwise registry" in capsys.readouterr().err
