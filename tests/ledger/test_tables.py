"""Tests of serving.ledger.tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlalchemy import create_engine, insert, select

from serving.ledger.records import AttemptRecord, DecisionRecord, FeedbackRecord, Outcome, Usage
from serving.ledger.tables import attempt_row, attempts, decision_row, decisions, feedback, metadata


def test_the_columns_are_the_records_members() -> None:
    """No member of a record is forgotten when one is added, and no column is without a source."""
    decision_fields = {field.name for field in dataclasses.fields(DecisionRecord)}
    assert {column.name for column in decisions.columns} == decision_fields | {"id"}
    attempt_fields = {field.name for field in dataclasses.fields(AttemptRecord)} - {"usage"}
    feedback_fields = {field.name for field in dataclasses.fields(FeedbackRecord)}
    assert {column.name for column in feedback.columns} == feedback_fields | {"id"}
    usage_fields = {field.name for field in dataclasses.fields(Usage)}
    assert {column.name for column in attempts.columns} == attempt_fields | usage_fields | {
        "id",
        "recorded_at",
    }


def test_a_record_comes_back_as_it_went_in(
    make_decision: Callable[..., DecisionRecord], make_attempt: Callable[..., AttemptRecord]
) -> None:
    """Every value survives the database, null or not."""
    decision = make_decision(prompt="why?", session="s", error_code="e")
    attempt = make_attempt(usage=Usage(prompt_tokens=1, accepted_tokens=2), outcome=Outcome.CANCELLED)
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(insert(decisions), [decision_row(decision)])
        connection.execute(insert(attempts), [attempt_row(attempt, recorded_at=5.0)])
        stored_decision = connection.execute(select(decisions)).mappings().one()
        stored_attempt = connection.execute(select(attempts)).mappings().one()
    engine.dispose()
    assert dict(stored_decision) == dataclasses.asdict(decision) | {"id": 1}
    expected = dataclasses.asdict(attempt)
    usage = expected.pop("usage")
    assert dict(stored_attempt) == expected | usage | {"id": 1, "recorded_at": 5.0}


def test_a_key_where_the_models_name_belongs_is_not_kept(
    make_decision: Callable[..., DecisionRecord],
) -> None:
    """A client's slip does not put its key into a file that others read."""
    engine = create_engine("sqlite://")
    key = "tw-" + "Ab3_-" * 8 + "xyz"
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(insert(decisions), [decision_row(make_decision(model=key, error_code=key))])
        stored = connection.execute(select(decisions.c.model, decisions.c.error_code)).one()
    engine.dispose()
    assert tuple(stored) == ("[secret]", "[secret]")


def test_what_a_database_refuses_in_text_is_replaced(make_decision: Callable[..., DecisionRecord]) -> None:
    """A client's NUL or lone surrogate cannot make a batch impossible to write; other text is untouched."""
    engine = create_engine("sqlite://")
    models = ["a\x00b", "a\udc80b", "naïve\n\t🙂"]
    with engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(insert(decisions), [decision_row(make_decision(model=model)) for model in models])
        stored = connection.scalars(select(decisions.c.model)).all()
    engine.dispose()
    assert stored == ["a\N{REPLACEMENT CHARACTER}b", "a\\udc80b", "naïve\n\t🙂"]
