"""`tierwise route evaluate`: how good a difficulty model is on outcomes that it has not seen, beside the baselines."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from router.artifact import from_bytes
from router.artifact_header import ArtifactError
from router.encoding import Embedder
from router.evaluate import NothingToJudgeError
from router.fit_config import FitConfig, FitRefusedError
from router.fitted import FittedModel
from router.outcome_table import OutcomeTable
from router.prepared import prepare
from serving.bringup.progress import ConsoleReport
from serving.commands.outcomes_file import OutcomesFileError
from serving.commands.outcomes_source import Tables, read_tables
from serving.commands.route_evaluate_gate import BoundError, check, verdicts
from serving.commands.route_evaluate_options import NO_EMBEDDING, parser
from serving.commands.route_evaluate_plots import MissingLibraryError, require_matplotlib
from serving.commands.route_evaluate_report import write_report
from serving.commands.route_evaluate_run import (
    Evaluation,
    Reader,
    by_folds,
    by_model,
    by_training,
    prepared_for,
)
from serving.commands.route_evaluate_views import as_json, show
from serving.gateway.embedding import find_embedder, load_embedding
from serving.registry.errors import RegistryError
from serving.registry.reference import PathReference, parse
from serving.registry.store import Store
from serving.settings_sources import SettingsError, load_settings

_FAILURES = (
    OutcomesFileError,
    FitRefusedError,
    NothingToJudgeError,
    ArtifactError,
    RegistryError,
    MissingLibraryError,
)


def main(argv: list[str]) -> int:
    """Evaluate. 0; 1 where that is not possible or a required figure is missed; 2 for wrong use."""
    args = parser().parse_args(argv)
    try:
        if args.report is not None:
            require_matplotlib()
        evaluations = _evaluations(args)
        told = verdicts(args.require, evaluations)
        files = [] if args.report is None else write_report(args.report, evaluations)
    except (SettingsError, BoundError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 2
    except (*_FAILURES, OSError) as error:
        print(f"tierwise: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(as_json(evaluations, told))
    else:
        show(evaluations, told)
        for file in files[:1]:
            print(f"report: {file}")
    return 0 if all(verdict.is_met for verdict in told) else 1


def _evaluations(args: argparse.Namespace) -> list[Evaluation]:
    reader = Reader(time.perf_counter, seed=args.seed)
    if args.artifact is not None:
        model = _artifact(args)
        tables = _tables(args, arms=args.arms or model.arms)
        how = f"by {model.version}"
        return [
            by_model(name, prepared_for(model, _of_arms(table, model)), model, reader, how)
            for name, table in tables.by_name.items()
        ]
    embed = None if args.embedding == NO_EMBEDDING else load_embedding(args.embedding)[1]
    config = FitConfig(seed=args.seed)
    if args.train is not None:
        return _trained_elsewhere(args, config, reader, embed)
    evaluations = []
    for name, table in _tables(args, arms=args.arms).by_name.items():
        prepared = prepare(table, embed)
        with _steps(f"{name}: {len(table)} prompts", config.num_folds * (config.num_folds + 1)) as step:
            evaluations.append(by_folds(name, prepared, config, reader, step))
    return evaluations


def _trained_elsewhere(
    args: argparse.Namespace, config: FitConfig, reader: Reader, embed: Embedder | None
) -> list[Evaluation]:
    training = read_tables(args.train, arms=args.arms)
    _remark(training)
    evaluations = []
    for name, table in _tables(args, arms=args.arms).by_name.items():
        seen = prepare(_counterpart(args.train, training, name), embed)
        if seen.table.arms != table.arms:
            raise OutcomesFileError(
                f"{args.train} has the arms {', '.join(seen.table.arms)}, and {args.data} {', '.join(table.arms)}; "
                "name those of both with --arms"
            )
        with _steps(f"{name}: fit on {len(seen.table)} prompts", config.num_folds + 1) as step:
            evaluations.append(by_training(name, prepare(table, embed), seen, config, reader, step))
    return evaluations


def _counterpart(path: Path, tables: Tables, name: str) -> OutcomeTable:
    """The table to fit on for the one of this name: that of the same name, or the only one."""
    if name in tables.by_name:
        return tables.by_name[name]
    if len(tables.by_name) == 1:
        return next(iter(tables.by_name.values()))
    raise OutcomesFileError(f"{path}: no set {name!r} to fit on; there are {', '.join(tables.by_name)}")


def _of_arms(table: OutcomeTable, model: FittedModel) -> OutcomeTable:
    """The table with the model's arms as its columns.

    Raises:
        ArtifactError: the model does not know one.
    """
    if table.arms != model.arms:
        raise ArtifactError(
            f"{model.version} knows the arms {', '.join(model.arms)}, and the outcomes are of {', '.join(table.arms)}"
        )
    return table


def _tables(args: argparse.Namespace, arms: tuple[str, ...] | None) -> Tables:
    tables = read_tables(args.data, only=args.set_name, arms=arms)
    _remark(tables)
    check(args.require, tables.by_name)
    return tables


def _remark(tables: Tables) -> None:
    for remark in tables.remarks:
        print(f"tierwise: {remark}", file=sys.stderr)


def _artifact(args: argparse.Namespace) -> FittedModel:
    """The model in a file, or in the registry."""
    path = Path(args.artifact)
    if not path.is_file():
        reference = parse(args.artifact)
        if not isinstance(reference, PathReference):
            published = Store(
                load_settings(None, {} if args.home is None else {"home": args.home}).home / "registry"
            ).load(reference)
            path = published.weights
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from None
    return from_bytes(data, find_embedder)[0]


@contextmanager
def _steps(label: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar that moves on by one each time."""
    with ConsoleReport(Console(stderr=True)).track(label, total, "tensors") as advance:
        numbers = iter(range(1, total + 1))
        yield lambda: advance(next(numbers))
