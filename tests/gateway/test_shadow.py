"""Shadow runs in a live gateway: what is asked again, what comes of it, and that no client is any the worse for it."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

import pytest

from serving.ledger.records import Outcome, Purpose
from serving.telemetry.shadow_series import RunEnd, Skip
from tests.fakes import Fault, MockUpstream, Point, Script
from tests.live_gateway import HI, LiveGateway

ALWAYS = {"share": 1.0, "max_cost_per_hour": 1.0}


def says(text: str, **script: Any) -> Script:
    return Script(tokens=(text,), **script)


def shadowed(fast: MockUpstream, full: MockUpstream, **shadow: Any) -> LiveGateway:
    """A gateway whose every request has a shadow run, unless `shadow` says otherwise."""
    return LiveGateway({"fast": [fast], "full": [full]}, settings={"shadow": {**ALWAYS, **shadow}})


def num_ended(gateway: LiveGateway, end: RunEnd) -> float:
    return gateway.metrics.registry.get_sample_value("tierwise_shadow_runs_total", {"outcome": end}) or 0.0


def num_skipped(gateway: LiveGateway, reason: Skip) -> float:
    labels = {"reason": reason}
    return gateway.metrics.registry.get_sample_value("tierwise_shadow_skipped_total", labels) or 0.0


def cost(gateway: LiveGateway, arm: str) -> float:
    return gateway.metrics.registry.get_sample_value("tierwise_shadow_cost_total", {"arm": arm}) or 0.0


async def over(gateway: LiveGateway) -> None:
    await gateway.idle(5.0)


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize(
    ("full_says", "end", "score"),
    [("The answer is 4.", RunEnd.SUFFICED, 1.0), ("5", RunEnd.FELL_SHORT, 0.0)],
)
async def test_the_fast_arms_answer_is_graded_by_the_full_arms(
    is_streaming: bool, full_says: str, end: RunEnd, score: float
) -> None:
    """What the client was answered, streamed or not, is graded under the client's own request id."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says(full_says)) as full,
        shadowed(fast, full) as gateway,
    ):
        answer = await gateway.chat({"stream": is_streaming, "temperature": 0.5, "seed": 3})
        await over(gateway)
        request_id = answer.headers["x-request-id"]
        assert num_ended(gateway, end) == 1
        (record,) = gateway.books.feedback
        assert (record.request_id, record.arm, record.source, record.score) == (
            request_id,
            "fast",
            "shadow",
            score,
        )
        assert record.propensity == 1.0
        (asked,) = full.requests
        sent = asked.json
        assert (sent["temperature"], sent["seed"], sent["messages"]) == (0.5, 3, HI)
        assert not {"stream", "stream_options"} & set(sent)
        assert request_id not in asked.headers.values()


async def test_a_relative_grade_teaches_nothing() -> None:
    """That the fast arm said the same as the full one does not say that it was right: the grade is counted and kept,
    and moves no forecast, no drift, and nothing of what is said of forecasts."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4")) as full,
        shadowed(fast, full) as gateway,
    ):
        answer = await gateway.chat()
        await over(gateway)
        sample = gateway.metrics.registry.get_sample_value
        assert sample("tierwise_feedback_total", {"arm": "fast", "source": "shadow"}) == 1
        assert gateway.evidence.shown()["num_grades"] == 0
        assert sample("tierwise_feedback_outcomes", {"arm": "fast"}) is None
        body = {"request_id": answer.headers["x-request-id"], "success": False}
        assert (await gateway.http.post("/v1/feedback", json=body)).status_code == 200
        assert (
            gateway.evidence.shown()["num_grades"] == 1
        )  # it was not taken for the request's first grade either


async def test_the_fast_arm_is_graded_where_it_was_not_chosen() -> None:
    """The full arm answered: the grade is of the run's own id, with the fast arm's forecast."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4.0")) as full,
        shadowed(fast, full, share=1.0) as gateway,
    ):
        await gateway.chat({"model": "full"})
        await over(gateway)
        (record,) = gateway.books.feedback
        (decision,) = gateway.books.decisions
        run = gateway.books.attempts[-1]
        assert (record.request_id, record.arm, record.tier, record.score) == (
            run.request_id,
            "fast",
            "fast",
            1.0,
        )
        assert run.request_id != decision.request_id == run.parent
        assert record.success_probability != decision.success_probability
        assert run.request_id.startswith("shadow_")
        unknown = await gateway.http.post(
            "/v1/feedback", json={"request_id": run.request_id, "success": True}
        )
        assert unknown.status_code == 404


async def test_a_run_is_in_the_books_and_in_no_clients() -> None:
    """Its attempt is marked, its cost is in a series of its own; request, budget and tiers know nothing of it."""
    async with (
        MockUpstream(says("4", prompt_tokens=10)) as fast,
        MockUpstream(says("4", prompt_tokens=10)) as full,
        shadowed(fast, full) as gateway,
    ):
        await gateway.chat()
        await over(gateway)
        (decision,) = gateway.books.decisions
        served, run = gateway.books.attempts
        assert (served.purpose, served.parent) == (Purpose.ANSWER, None)
        assert (run.purpose, run.parent, run.arm, run.outcome) == (
            Purpose.SHADOW,
            decision.request_id,
            "full",
            Outcome.SUCCESS,
        )
        assert (decision.num_attempts, decision.cost) == (1, served.cost)
        expected = (1.0 * 10 + 4.0 * 1) / 1e6
        assert run.cost == cost(gateway, "full") == pytest.approx(expected)
        assert gateway.gauge("tierwise_cost_total") == pytest.approx(served.cost)
        assert gateway.gauge("tierwise_requests_total") == gateway.gauge("tierwise_attempts_total") == 1
        assert gateway.gauge("tierwise_queue_seconds_count") == 1


async def test_only_the_share_is_asked_again() -> None:
    """Seeded lots: about three tenths of them, and what is recorded as the chance is what happens."""
    num_requests = 300
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4")) as full,
        shadowed(fast, full, share=0.3, only_when_idle=False, max_in_flight=50) as gateway,
    ):
        for _ in range(num_requests):
            await gateway.chat()
        await over(gateway)
        grades = gateway.books.feedback
        assert len(full.requests) == len(grades) == num_ended(gateway, RunEnd.SUFFICED)
        assert 0.22 < len(grades) / num_requests < 0.38
        assert {grade.propensity for grade in grades} == {0.3}


async def test_without_a_share_nothing_is_drawn_or_overheard() -> None:
    """The default."""
    async with (
        MockUpstream() as fast,
        MockUpstream() as full,
        LiveGateway({"fast": [fast], "full": [full]}) as gateway,
    ):
        await gateway.chat()
        await over(gateway)
        assert not full.requests
        assert not any(num_skipped(gateway, reason) for reason in Skip)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, Skip.UNSUITABLE),
        ({"n": 2}, Skip.UNSUITABLE),
        ({"store": True}, Skip.UNSUITABLE),
        ({"web_search_options": {"search_context_size": "low"}}, Skip.UNSUITABLE),
        ({"messages": [*HI, {"role": "tool", "tool_call_id": "1", "content": "4"}]}, Skip.UNSUITABLE),
        ({"messages": [{"role": "user", "content": "x" * 70_000}], "max_tokens": 1}, Skip.UNSUITABLE),
    ],
)
async def test_what_could_be_noticed_or_is_large_is_asked_once(body: dict[str, Any], reason: Skip) -> None:
    """Tools, several choices, anything kept; and a body above the limit."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4")) as full,
        shadowed(fast, full) as gateway,
    ):
        answer = await gateway.chat(body)
        await over(gateway)
        assert answer.status_code in (200, 400)
        assert not full.requests
        assert num_skipped(gateway, reason) == 1


async def test_a_request_that_is_told_not_to_be_stored_is_suitable() -> None:
    """`store: false`, and the wish for usage in a stream, are no obstacle."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4")) as full,
        shadowed(fast, full) as gateway,
    ):
        await gateway.chat({"store": False, "stream": True, "stream_options": {"include_usage": True}})
        await over(gateway)
        assert num_ended(gateway, RunEnd.SUFFICED) == 1


async def test_text_completions_are_asked_again_and_responses_are_not() -> None:
    """By the client's protocol."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4")) as full,
        shadowed(fast, full) as gateway,
    ):
        body = {"model": "fast", "prompt": "2 + 2 ="}
        assert (await gateway.http.post("/v1/completions", json=body)).status_code == 200
        await over(gateway)
        assert [seen.path for seen in full.requests] == ["/v1/completions"]
        assert num_ended(gateway, RunEnd.SUFFICED) == 1
        body = {"model": "fast", "input": "2 + 2 ="}
        assert (await gateway.http.post("/v1/responses", json=body)).status_code == 200
        await over(gateway)
        assert len(full.requests) == 1
        assert num_skipped(gateway, Skip.UNSUITABLE) == 1


async def test_an_answer_that_is_none_is_not_compared() -> None:
    """An error, and a stream that broke off."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4")) as full,
        shadowed(fast, full) as gateway,
    ):
        fast.queue(Script(status=400))
        await gateway.chat()
        fast.queue(Script(fault=Fault.CLOSE, fault_at=Point.MID_STREAM))
        await gateway.stream()
        await over(gateway)
        assert num_skipped(gateway, Skip.UNANSWERED) == 2
        assert not full.requests


async def test_where_no_other_arm_can_answer_there_is_nobody_to_ask() -> None:
    """The full tier is down."""
    async with MockUpstream() as fast, shadowed(fast, MockUpstream()) as gateway:
        gateway.fleet.replica_down("full", gateway.fleet["full"].pool.replicas[0].url)
        await gateway.chat()
        await over(gateway)
        assert num_skipped(gateway, Skip.NO_ARM) == 1


async def test_the_cap_holds_while_runs_overlap() -> None:
    """Of many runs at once only as many begin as their expected cost leaves room for."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4", ttft_s=0.3)) as full,
        shadowed(fast, full, max_cost_per_hour=0.005, max_in_flight=64, only_when_idle=False) as gateway,
    ):
        body = {
            "model": "fast",
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": "Write. " * 200}],
        }
        await asyncio.gather(*(gateway.chat(body) for _ in range(12)))
        num_begun = gateway.shadows.num_running
        candidates = json.loads(gateway.books.decisions[0].candidates)
        expected = next(told["cost"] for told in candidates if told["arm"] == "full")
        assert num_begun == int(0.005 / expected) < 12
        assert num_skipped(gateway, Skip.COST) == 12 - num_begun
        await over(gateway)
        assert 0 < cost(gateway, "full") < 0.005


async def test_what_an_engine_kept_to_itself_counts_as_expected() -> None:
    """A run that was cut short may have been paid for: the cap, which had room for one, has none for the next."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4", ttft_s=10)) as full,
        shadowed(fast, full) as gateway,
    ):
        body = {"max_tokens": 100}
        await gateway.chat({**body, "store": True})
        told = json.loads(gateway.books.decisions[0].candidates)
        expected = next(candidate["cost"] for candidate in told if candidate["arm"] == "full")
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4")) as full,
        shadowed(fast, full, max_cost_per_hour=1.5 * expected) as gateway,
    ):
        full.queue(says("4", ttft_s=10))
        await gateway.chat(body)
        await full.until(lambda: full.requests)
        await gateway.chat({**body, "model": "full", "store": True})
        await over(gateway)
        assert num_ended(gateway, RunEnd.GAVE_WAY) == 1
        await gateway.chat(body)
        assert num_skipped(gateway, Skip.COST) == 1


async def test_no_more_than_max_in_flight_at_once() -> None:
    """One, unless the settings say more."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4", ttft_s=0.3)) as full,
        shadowed(fast, full, only_when_idle=False) as gateway,
    ):
        await gateway.chat()
        await gateway.chat()
        assert gateway.shadows.num_running == 1
        assert num_skipped(gateway, Skip.IN_FLIGHT) == 1
        await over(gateway)


async def test_a_tier_that_has_to_do_is_left_alone() -> None:
    """A client's request is with the full tier, though it had room for many."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4", ttft_s=0.3)) as full,
        shadowed(fast, full) as gateway,
    ):
        client = asyncio.create_task(gateway.chat({"model": "full", "n": 2}))
        await full.until(lambda: full.requests)
        await gateway.chat()
        assert num_skipped(gateway, Skip.BUSY) == 1
        await client
        await over(gateway)
        assert len(full.requests) == 1


@pytest.mark.parametrize("only_when_idle", [True, False])
async def test_a_run_gives_its_place_to_the_client_that_comes_for_it(only_when_idle: bool) -> None:
    """The tier has one place, and the run would keep it for ten seconds: the client is answered at once."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4")) as full,
        LiveGateway(
            {"fast": [fast], "full": [full]},
            max_in_flight=1,
            settings={"shadow": {**ALWAYS, "only_when_idle": only_when_idle}},
        ) as gateway,
    ):
        full.queue(says("4", ttft_s=10))
        await gateway.chat()
        await full.until(lambda: full.requests)
        began = time.monotonic()
        answer = await gateway.chat({"model": "full", "n": 2})
        assert answer.status_code == 200
        assert time.monotonic() - began < 2
        await over(gateway)
        assert num_ended(gateway, RunEnd.GAVE_WAY) == 1
        cut = [attempt for attempt in gateway.books.attempts if attempt.purpose is Purpose.SHADOW]
        assert [attempt.outcome for attempt in cut] == [Outcome.CANCELLED]
        assert len(full.aborts) == 1
        assert not gateway.books.feedback


async def test_a_busy_neighbour_on_the_same_machine_counts() -> None:
    """Engines that the gateway starts share its machine: a run at one of them slows the other's client."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4", ttft_s=10)) as full,
        LiveGateway(
            {"fast": [fast], "full": [full]}, is_supervised=True, settings={"shadow": ALWAYS}
        ) as gateway,
    ):
        await gateway.chat()
        await full.until(lambda: full.requests)
        assert gateway.shadows.num_running == 1
        await gateway.chat({"n": 2})
        await over(gateway)
        assert num_ended(gateway, RunEnd.GAVE_WAY) == 1


async def test_the_last_place_is_spared_where_nobody_may_wait() -> None:
    """Without a line a client that finds no place is refused, so that a run must not take the last one."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4", ttft_s=0.3)) as full,
        LiveGateway(
            {"fast": [fast], "full": [full]},
            max_in_flight=1,
            max_queue=0,
            settings={"shadow": {**ALWAYS, "only_when_idle": False}},
        ) as gateway,
    ):
        await gateway.chat()
        assert num_skipped(gateway, Skip.BUSY) == 1
        await over(gateway)


async def test_the_end_of_the_gateway_ends_runs() -> None:
    """At once, with their attempts in the ledger; and none begins from then on, not even one just drawn."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4", ttft_s=10)) as full,
        shadowed(fast, full, max_in_flight=2, only_when_idle=False) as gateway,
    ):
        await gateway.chat()
        await full.until(lambda: full.requests)
        await gateway.shadows.close()
        await full.until(lambda: full.aborts)
        await gateway.chat()
        await over(gateway)
        assert num_ended(gateway, RunEnd.SHUTDOWN) == 1
        assert len(full.requests) == 1
        assert gateway.books.outcomes == [Outcome.SUCCESS, Outcome.CANCELLED, Outcome.SUCCESS]


@pytest.mark.parametrize(
    "fault",
    [
        Script(status=500),
        Script(status=400),
        Script(status=429, headers={"retry-after": "1"}),
        Script(fault=Fault.RESET),
        Script(body=b"nonsense"),
        Script(body=b'{"choices": [{"index": 0, "message": {"content": null, "tool_calls": [1]}}]}'),
    ],
)
async def test_a_run_that_fails_is_nobodys_concern(fault: Script, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the other engine does, the client has its answer, nothing is graded, and nothing is in the log."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(fault) as full,
        shadowed(fast, full) as gateway,
    ):
        caplog.set_level(logging.DEBUG, "serving")
        answer = await gateway.chat()
        assert answer.json()["choices"][0]["message"]["content"] == "4"
        await over(gateway)
        assert num_ended(gateway, RunEnd.FAILED) + num_ended(gateway, RunEnd.INCOMPARABLE) == 1
        assert not gateway.books.feedback
        assert not caplog.records
        assert gateway.books.statuses == [200]


async def test_a_mistake_of_ours_says_nothing_of_what_was_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the kind of error alone: its message may quote a prompt. What was reserved comes back."""

    async def broken(*_: object, **__: object) -> RunEnd:
        raise ValueError("hush-hush")

    monkeypatch.setattr("serving.gateway.shadow.compare", broken)
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4")) as full,
        shadowed(fast, full) as gateway,
    ):
        for _ in range(3):
            await gateway.chat({"messages": [{"role": "user", "content": "hush-hush"}]})
            await over(gateway)
        assert num_ended(gateway, RunEnd.FAILED) == 3
        assert "ValueError" in caplog.text
        assert "hush-hush" not in caplog.text


JUDGE = {"judge": "arm:full"}


@pytest.mark.parametrize(
    ("verdicts", "end"),
    [
        (("A", "B"), RunEnd.SUFFICED),
        (("tie", "Tie."), RunEnd.SUFFICED),
        (("B", "A"), RunEnd.FELL_SHORT),
        (("A", "A"), RunEnd.INCOMPARABLE),
        (("Well,", "A"), RunEnd.UNPARSABLE),
        (("A", "well"), RunEnd.UNPARSABLE),
    ],
)
async def test_an_arm_judges(verdicts: tuple[str, str], end: RunEnd) -> None:
    """The fast answer is A first and B then; both verdicts make its grade, and all that was asked is paid for."""
    async with (
        MockUpstream(says("fast words")) as fast,
        MockUpstream() as full,
        shadowed(fast, full, **JUDGE) as gateway,
    ):
        full.queue(says("full words"), *map(says, verdicts))
        await gateway.chat({"messages": [{"role": "user", "content": "the question"}]})
        await over(gateway)
        assert num_ended(gateway, end) == 1
        grades = [record.score for record in gateway.books.feedback]
        assert grades == (
            [] if end in (RunEnd.INCOMPARABLE, RunEnd.UNPARSABLE) else [float(end is RunEnd.SUFFICED)]
        )
        questions = [seen.json["messages"][0]["content"] for seen in full.requests[1:]]
        assert "the question" in questions[0]
        assert questions[0].index("fast words") < questions[0].index("full words")
        runs = [attempt for attempt in gateway.books.attempts if attempt.parent]
        assert [attempt.purpose for attempt in runs] == [Purpose.SHADOW] + [Purpose.JUDGE] * len(questions)
        assert [attempt.attempt for attempt in runs] == list(range(len(runs)))
        assert cost(gateway, "full") == pytest.approx(sum(attempt.cost for attempt in runs))
        if len(questions) == 2:
            assert questions[1].index("full words") < questions[1].index("fast words")


async def test_without_a_judge_the_run_is_only_paid_for() -> None:
    """What the other arm takes becomes known, and nothing of how good it is."""
    async with (
        MockUpstream(says("4")) as fast,
        MockUpstream(says("4")) as full,
        shadowed(fast, full, judge="none") as gateway,
    ):
        await gateway.chat()
        await over(gateway)
        assert num_ended(gateway, RunEnd.UNJUDGED) == 1
        assert not gateway.books.feedback
        assert cost(gateway, "full") > 0
