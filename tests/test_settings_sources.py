"""Settings: who overrides whom, what is said of a wrong key wherever it stands, and what is never shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import tomli_w
from pydantic import BaseModel

from serving.settings import Settings
from serving.settings_sources import (
    SHIPPED_CONFIG,
    SettingsError,
    find_config,
    load_settings,
    parse_value,
    secret,
    to_toml,
)

TREE: dict[str, Any] = {
    "home": "/srv/tierwise",
    "gateway": {"port": 8100},
    "tiers": {
        "full": {
            "model": "full@stable",
            "engine": {"type": "llamacpp", "sampling": {"temperature": 0.5}},
            "price": {"input": 1.0, "output": 4.0},
            "deadlines": {"idle_s": 7.0},
        },
        "fast": {
            "engine": {
                "type": "external",
                "urls": ["http://127.0.0.1:9000/v1"],
                "api_key_env": "UPSTREAM_KEY",
            },
            "price": {"input": 0.2, "output": 0.8},
        },
    },
    "arms": [{"name": "quick", "tier": "fast"}, {"name": "full", "tier": "full", "request": {"top_k": 1}}],
    "router": {"min_quality": 0.5},
    "budget": {"metric": "full_share", "target": 0.3},
    "ledger": {"store_prompts": True},
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file with every kind of node in it."""
    path = tmp_path / "tierwise.toml"
    path.write_text(tomli_w.dumps(TREE))
    return path


def nodes(
    kind: Any, tree: Any, names: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every settings node that stands in `tree`, with the names that lead to it."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield names, kind
        for name, field in kind.model_fields.items():
            if name in tree:
                yield from nodes(field.annotation, tree[name], (*names, name))
    elif isinstance(tree, dict):
        members = [member for member in get_args(kind) if isinstance(member, type)]
        if get_origin(kind) is dict:
            for name, below in tree.items():
                yield from nodes(get_args(kind)[1], below, (*names, name))
        elif "type" in tree:
            yield from nodes(
                next(m for m in members if m.model_fields["type"].default == tree["type"]), tree, names
            )
    elif isinstance(tree, list) and get_origin(kind) is tuple:
        for i, below in enumerate(tree):
            yield from nodes(get_args(kind)[0], below, (*names, i))


NODES = list(nodes(Settings, TREE))


def test_the_walk_sees_every_node() -> None:
    """The tree of these tests holds every kind of node there is, so that a new one must be added."""
    seen = {kind.__name__ for _, kind in NODES}
    assert seen == {
        *("Settings", "GatewaySettings", "TierSettings", "PriceSettings", "DeadlineSettings", "ArmSettings"),
        *(
            "RouterSettings",
            "BudgetSettings",
            "LedgerSettings",
            "LlamaCppSettings",
            "SamplingSettings",
            "ExternalSettings",
        ),
    }


@pytest.mark.parametrize(
    ("names", "kind"), NODES, ids=[".".join(map(str, names)) or "root" for names, _ in NODES]
)
def test_an_unknown_key_names_the_nearest_right_one(
    names: tuple[str | int, ...], kind: type[BaseModel], tmp_path: Path
) -> None:
    """In every node, each misspelt key is refused with its place, its file and the key that was meant."""
    for field in kind.model_fields:
        tree = json.loads(json.dumps(TREE))
        node = tree
        for name in names:
            node = node[name]
        node[f"{field}_"] = 1
        path = tmp_path / "t.toml"
        path.write_text(tomli_w.dumps(tree))
        with pytest.raises(SettingsError) as refused:
            load_settings(path, environ={})
        place = ".".join(map(str, (*names, f"{field}_")))
        assert str(refused.value) == f"{place} ({path}): unknown key; did you mean {field!r}?"


def test_precedence(config: Path) -> None:
    """Defaults < file < environment < command line, leaf by leaf."""
    assert load_settings(config, environ={}).gateway.port == 8100
    assert load_settings(config, environ={}).gateway.max_queue == 256
    environ = {"TIERWISE_GATEWAY__PORT": "8200", "TIERWISE_TIERS__FAST__PRICE__INPUT": "0.3", "OTHER": "x"}
    told = load_settings(config, environ=environ)
    assert (told.gateway.port, told.tiers["fast"].price.input) == (8200, 0.3)
    told = load_settings(config, {"gateway.port": 8300}, environ)
    assert (told.gateway.port, told.tiers["fast"].price.input) == (8300, 0.3)
    assert told.tiers["fast"].price.output == 0.8


def leaves(tree: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in tree.items():
        if isinstance(value, dict) and names[:1] != ("arms",):
            yield from leaves(value, (*names, name))
        else:
            yield (*names, name), value


def test_every_leaf_can_be_set_by_environment_and_by_command_line(config: Path) -> None:
    """Any leaf, written as TOML, is read back as itself from `TIERWISE_A__B` and from `a.b=`."""
    resolved = load_settings(config, environ={})
    for names, value in leaves(resolved.model_dump(mode="json", exclude_none=True)):
        text = tomli_w.dumps({"value": value}).removeprefix("value = ").strip()
        variable = "TIERWISE_" + "__".join(names).upper()
        assert load_settings(config, environ={variable: text}) == resolved, names
        assert load_settings(config, {".".join(names): parse_value(text)}, {}) == resolved, names


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8001", 8001),
        ("0.5", 0.5),
        ("true", True),
        ('["a", "b"]', ["a", "b"]),
        ('{ type = "llamacpp" }', {"type": "llamacpp"}),
        ('"8001"', "8001"),
        ("full@stable", "full@stable"),
        ("127.0.0.1", "127.0.0.1"),
        ("http://x/?a=b#c", "http://x/?a=b#c"),
        ("", ""),
        ("a = 1\nb = 2", "a = 1\nb = 2"),
    ],
)
def test_values_are_toml_or_plain_text(text: str, value: Any) -> None:
    """A value needs no quotes where it is no TOML."""
    assert parse_value(text) == value


@pytest.mark.parametrize(
    ("environ", "overrides", "told"),
    [
        (
            {"TIERWISE_GATEWAY__PROT": "1"},
            {},
            "gateway.prot ($TIERWISE_GATEWAY__PROT): unknown key; did you mean 'port'?",
        ),
        (
            {"TIERWISE_GATEWY__PORT": "1"},
            {},
            "gatewy ($TIERWISE_GATEWY__PORT): unknown key; did you mean 'gateway'?",
        ),
        ({"TIERWISE_XYZ": "1"}, {}, "xyz ($TIERWISE_XYZ): unknown key; known here: home, gateway, tiers"),
        (
            {"TIERWISE_GATEWAY__PORT": "70000"},
            {},
            "gateway.port ($TIERWISE_GATEWAY__PORT): Input should be less than",
        ),
        (
            {},
            {"gateway.port": "x"},
            "gateway.port (command line, gateway.port): Input should be a valid integer",
        ),
        (
            {"TIERWISE_TIERS__FAST__PRICE": "{ input = -1, output = 1 }"},
            {},
            "tiers.fast.price.input ($TIERWISE_TIERS__FAST__PRICE)",
        ),
        ({}, {"gateway.port.x": 1}, "gateway.port.x (command line, gateway.port.x): 'port' is a value"),
        ({}, {"tiers.fast.engine.urls": []}, "tiers.fast.engine.urls"),
        ({}, {"tiers.fast.engine.urls": ["ftp://x"]}, "is not a URL; write it like"),
        ({}, {"tiers.fast.engine.type": "vllmm"}, "tiers.fast.engine"),
        ({}, {"tiers.fast.model": "full@stable"}, "tiers.fast ("),
        ({}, {"tiers.full.engine.binary_args": ["-x"]}, "tiers.full.engine ("),
        ({}, {"tiers.engine.price.input": -1}, "tiers.engine.price.input (command line"),
        ({}, {"tiers.auto.price.input": 1}, "tiers.auto.engine"),
        (
            {},
            {"tiers.b c.price.input": 1},
            "tiers.b c (command line, tiers.b c.price.input): String should match",
        ),
        ({}, {"gateway.drain_s": float("inf")}, "gateway.drain_s"),
        ({}, {"router.min_quality": float("nan")}, "router.min_quality"),
    ],
)
def test_a_wrong_value_names_its_place_and_source(
    config: Path, environ: dict[str, str], overrides: dict[str, Any], told: str
) -> None:
    """The message leads to the variable, the option or the file where the value stands."""
    with pytest.raises(SettingsError) as refused:
        load_settings(config, overrides, environ)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"arms": [{"name": "x", "tier": "nowhere"}]}, "names tier 'nowhere'; the tiers are"),
        (
            {"arms": [{"name": "x", "tier": "fast"}, {"name": "x", "tier": "full"}]},
            "two arms are named 'x'; rename one",
        ),
        ({"arms": [{"name": "auto", "tier": "fast"}]}, "'auto' asks the router to choose"),
        ({"arms": [{"name": "a b", "tier": "fast"}]}, "arms.0.name"),
        ({"tiers": {}}, "tiers"),
    ],
)
def test_names_have_to_agree(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    """Arms name tiers that exist, nothing is named twice, and nothing is named `auto`."""
    path = tmp_path / "t.toml"
    path.write_text(tomli_w.dumps(TREE | change))
    with pytest.raises(SettingsError) as refused:
        load_settings(path, environ={})
    assert told in str(refused.value)


def test_all_faults_are_told_at_once(config: Path) -> None:
    """One line for each fault, so that a file is put right in one go."""
    overrides = {"gateway.port": -1, "gateway.hosst": "x", "router.min_quality": 2}
    with pytest.raises(SettingsError) as refused:
        load_settings(config, overrides, {})
    assert len(str(refused.value).splitlines()) == 3


@pytest.mark.parametrize("content", [b"[gateway", b"port = \xff", None])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    """Absent, not TOML, not text, or a directory: one line with the path."""
    path = tmp_path / "t.toml"
    if content is not None:
        path.write_bytes(content)
    for unusable in (path, tmp_path):
        with pytest.raises(SettingsError) as refused:
            load_settings(unusable, environ={})
        assert str(refused.value).startswith(str(unusable))
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", [SHIPPED_CONFIG, None])
def test_what_is_printed_is_read_back(path: Path | None, config: Path, tmp_path: Path) -> None:
    """`--print-config` of the shipped file, and of one with every node, resolves to the same settings."""
    settings = load_settings(path or config, environ={})
    printed = tmp_path / "printed.toml"
    printed.write_text(to_toml(settings))
    assert load_settings(printed, environ={}) == settings
    assert to_toml(load_settings(printed, environ={})) == to_toml(settings)


def test_secrets_are_never_printed(config: Path) -> None:
    """The tree holds names of variables, not keys; a password in a URL is masked, or refused where it has no place."""
    environ = {"UPSTREAM_KEY": "s3cret", "TIERWISE_LEDGER__URL": "postgresql://user:s3cret@db/tierwise"}
    settings = load_settings(config, environ=environ)
    assert "s3cret" not in to_toml(settings) + repr(settings)
    assert "UPSTREAM_KEY" in to_toml(settings)
    for urls in (["http://user:s3cret@host"], "http://user:s3cret@host", ["ftp://user:s3cret@host"]):
        with pytest.raises(SettingsError) as refused:
            load_settings(config, {"tiers.fast.engine.urls": urls}, {})
        assert "s3cret" not in str(refused.value)
    with pytest.raises(
        SettingsError, match="api_key_env"
    ) as refused:  # the key, where its variable's name belongs
        load_settings(config, {"tiers.fast.engine.api_key_env": "sk-abcdefghijklmnopqrst"}, {})
    assert "abcdefgh" not in str(refused.value)


def test_a_secret_that_is_named_has_to_be_set() -> None:
    """A missing key is told at the start and by name, not as 401s of an upstream later."""
    assert secret(None, {}) is None
    assert secret("UPSTREAM_KEY", {"UPSTREAM_KEY": "x"}) == "x"
    for environ in ({}, {"UPSTREAM_KEY": ""}):
        with pytest.raises(SettingsError, match="UPSTREAM_KEY"):
            secret("UPSTREAM_KEY", environ)


def test_which_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--config, else $TIERWISE_CONFIG, else ./tierwise.toml, else the shipped one."""
    monkeypatch.chdir(tmp_path)
    named = {"TIERWISE_CONFIG": "named.toml"}
    assert find_config(None, {}) == SHIPPED_CONFIG
    Path("tierwise.toml").touch()
    assert find_config(None, {}) == Path("tierwise.toml")
    assert find_config(None, named) == Path("named.toml")
    assert find_config(Path("given.toml"), named) == Path("given.toml")


def test_variables_of_tests_and_the_config_s_own_are_no_settings(config: Path) -> None:
    """`TIERWISE_CONFIG` and `TIERWISE_TEST_…` are not taken for leaves of the tree."""
    environ = {"TIERWISE_CONFIG": "elsewhere", "TIERWISE_TEST_X": "1"}
    assert load_settings(config, environ=environ) == load_settings(config, environ={})
