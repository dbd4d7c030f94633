"""Where settings come from, and what is said when they are wrong.

Precedence: defaults < one TOML file < environment < command line. `TIERWISE_GATEWAY__PORT=8001` and
`--set gateway.port=8001` name the same leaf; values are read as TOML and, failing that, as plain strings. A key that
the tree does not know is an error that names the nearest one it does.
"""

from __future__ import annotations

import difflib
import os
import tomllib
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import tomli_w
from pydantic import BaseModel, ValidationError

from serving.ledger.credentials import mask_credentials
from serving.settings import Settings

ENV_PREFIX = "TIERWISE_"
ADMIN_KEY = "TIERWISE_ADMIN_KEY"
"""Holds the admin key that commands send to a running gateway."""
NOT_SETTINGS = {"TIERWISE_CONFIG", ADMIN_KEY}
"""Variables with our prefix that are not leaves of the tree; those of the tests begin with TIERWISE_TEST_."""

SHIPPED_CONFIG = Path(__file__).parent / "default.toml"


class SettingsError(Exception):
    """The settings cannot be used; one line for each fault, each with its source and remedy."""


def find_config(explicit: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The TOML file to read: `--config`, else $TIERWISE_CONFIG, else ./tierwise.toml, else the shipped one."""
    if explicit is not None:
        return explicit
    if named := environ.get("TIERWISE_CONFIG"):
        return Path(named)
    local = Path("tierwise.toml")
    return local if local.is_file() else SHIPPED_CONFIG


def load_settings(
    config: Path | None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """The resolved settings.

    Args:
        config: the TOML file, or None for `find_config`'s choice.
        overrides: dotted path → value, from the command line.
        environ: the environment.

    Raises:
        SettingsError: a file that cannot be read, an unknown key, a value out of range.
    """
    path = find_config(config, environ)
    tree = _read_toml(path)
    sources: dict[tuple[str, ...], str] = {}
    for names, value, source in (*_from_environment(environ), *_from_overrides(overrides or {})):
        _put(tree, names, value, source, sources)
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise SettingsError(_explain(error, path, sources)) from None


def secret(variable: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """What an environment variable named in the settings holds; None where none is named.

    Raises:
        SettingsError: it is named and not set.
    """
    if variable is None:
        return None
    if not (value := environ.get(variable)):
        raise SettingsError(f"${variable} is not set; the settings name it as the place of an API key")
    return value


def environment() -> dict[str, str]:
    """The process's environment, for what must pass a part of it on."""
    return dict(os.environ)


def environment_without_settings() -> dict[str, str]:
    """The same without our variables, for a process of ours whose settings are all in the file that it is given."""
    return {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}


def to_toml(settings: Settings) -> str:
    """The resolved tree as TOML, which `load_settings` reads back to the same settings."""
    return tomli_w.dumps(settings.model_dump(mode="json", exclude_none=True))


def parse_value(text: str) -> Any:
    """`text` as a TOML value, or as it stands where it is none (`8001`, `true`, `["a"]`, `full@stable`)."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file; name a TOML file with --config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    for variable, text in sorted(environ.items()):
        is_ours = variable.startswith(ENV_PREFIX) and not variable.startswith(ENV_PREFIX + "TEST_")
        if is_ours and variable not in NOT_SETTINGS:
            names = tuple(variable.removeprefix(ENV_PREFIX).lower().split("__"))
            yield names, parse_value(text), f"${variable}"


def _from_overrides(overrides: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    for dotted, value in overrides.items():
        yield tuple(dotted.split(".")), value, f"command line, {dotted}"


def _put(
    tree: dict[str, Any],
    names: tuple[str, ...],
    value: Any,
    source: str,
    sources: dict[tuple[str, ...], str],
) -> None:
    """Set a leaf, and note in `sources` that it, and every node that it makes, came from `source`."""
    node = tree
    for n, name in enumerate(names[:-1], start=1):
        if name not in node:
            sources[names[:n]] = source
        child = node.setdefault(name, {})
        if not isinstance(child, dict):
            raise SettingsError(f"{'.'.join(names)} ({source}): {name!r} is a value and has no members")
        node = child
    node[names[-1]] = value
    sources[names] = source


def _explain(error: ValidationError, path: Path, sources: Mapping[tuple[str, ...], str]) -> str:
    lines = []
    for fault in error.errors(include_url=False):
        names = tuple(str(name) for name in fault["loc"])
        model = _model_at(names[:-1])
        shown = _as_written(names)
        source = _source_of(shown, sources) or str(path)
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "unknown key" + _nearest(names[-1], model)
        elif fault["type"] == "missing":
            message = "is missing"
        elif "input" in fault and not isinstance(fault["input"], dict | list):
            message += f" (it is {fault['input']!r})"
        lines.append(f"{'.'.join(shown) or 'settings'} ({source}): {message}")
    return mask_credentials("\n".join(lines))


def _source_of(names: tuple[str, ...], sources: Mapping[tuple[str, ...], str]) -> str | None:
    """Where the member came from, or the whole that it is part of."""
    return next((sources[names[:n]] for n in range(len(names), 0, -1) if names[:n] in sources), None)


def _nearest(name: str, model: type[BaseModel] | None) -> str:
    known = list(model.model_fields) if model else []
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known here: {', '.join(known)}" if known else ""


def _model_at(names: tuple[str, ...]) -> type[BaseModel] | None:
    """The settings node that a pydantic error location leads to; union tags are part of such a location."""
    kind: Any = Settings
    for name in names:
        kind = _step(kind, name)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _step(kind: Any, name: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(name)
        return _bare(field.annotation) if field else None
    if get_origin(kind) in (dict, tuple):
        return _bare(get_args(kind)[1 if get_origin(kind) is dict else 0])
    if get_origin(kind) in (Union, types.UnionType):
        return next((member for member in get_args(kind) if _tag(member) == name), None)
    return None


def _bare(kind: Any) -> Any:
    return _bare(get_args(kind)[0]) if get_origin(kind) is Annotated else kind


def _tag(member: Any) -> str | None:
    field = getattr(member, "model_fields", {}).get("type")
    return str(get_args(field.annotation)[0]) if field and get_origin(field.annotation) is Literal else None


def _as_written(names: tuple[str, ...]) -> tuple[str, ...]:
    """`names` as a person writes them: without the type that pydantic adds behind a tier's `engine`, or its `[key]`."""
    names = names[:-1] if names[-1:] == ("[key]",) else names
    is_tagged = len(names) > 3 and names[0] == "tiers" and names[2] == "engine"
    return names[:3] + names[4:] if is_tagged else names
