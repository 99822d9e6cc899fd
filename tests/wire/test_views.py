"""What client and server exchange: the same values on both sides, and newer servers do no harm to older clients."""

from datetime import UTC, datetime

import pytest

from penstock.wire import (
    ConflictError,
    HealthView,
    JobCountsView,
    JobDetail,
    JobGlance,
    ProgressView,
    PromisesView,
    QuoteView,
    RequestError,
    StopView,
    error_from,
    problem,
    share_is_guessed,
    stamp,
)


@pytest.mark.parametrize("never", [None, float("inf"), float("nan"), "inf"])
def test_never_and_unknown_are_no_moment(never: float | str | None) -> None:
    assert stamp(never) is None


def test_a_moment_is_exchanged_in_utc() -> None:
    assert stamp(0.0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert stamp("60") == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)


def test_a_view_comes_back_as_it_was_and_ignores_what_it_does_not_know() -> None:
    quote = QuoteView(verdict="promised", reason="it fits", finish_at=stamp(60.0), devices=4)
    assert QuoteView.model_validate_json(quote.model_dump_json()) == quote
    assert HealthView.model_validate({"status": "ready", "mood": "sunny"}).status == "ready"


def test_slack_is_what_lies_between_forecast_and_deadline() -> None:
    job = JobGlance(
        id="j", number=1, name="n", tenant="t", state="running", devices=1, share_done=0.5, started_at=None,
        submitted_at=datetime(2026, 1, 1, tzinfo=UTC), deadline=datetime(2026, 1, 1, 2, tzinfo=UTC), promised=True,
        forecast_at=datetime(2026, 1, 1, 3, tzinfo=UTC), step=None, total=None, loss=None, failures=0,
    )  # fmt: skip
    assert job.slack_s == -3600.0
    assert job.model_copy(update={"deadline": None}).slack_s is None


def test_a_ratio_needs_settled_promises() -> None:
    assert PromisesView(open=3).kept_ratio is None
    assert PromisesView(kept=3, broken=1).kept_ratio == 0.75


@pytest.mark.parametrize("kind", RequestError.__subclasses__())
def test_a_refusal_crosses_the_wire_with_its_three_parts(kind: type[RequestError]) -> None:
    body = problem(kind("six", "a number", "Try 6"))
    error = error_from(body)
    assert type(error) is kind
    assert (error.given, error.allowed, error.hint) == ("six", "a number", "Try 6")


def test_an_answer_of_an_unknown_kind_is_still_an_error() -> None:
    assert str(error_from({"code": "teapot", "message": "short and stout"})) == "short and stout."
    assert type(error_from(problem(ConflictError("x")))) is ConflictError


def test_what_is_expected_of_a_rule_is_said_as_far_as_it_is_known() -> None:
    at, known = datetime(2026, 1, 1, tzinfo=UTC), {"expected_steps": 90.0, "safe_steps": 120.0, "reach": 0.75}
    rule = StopView(rule="loss <= 1", metric="loss")
    for missing in known:
        partly = rule.model_copy(update=known | {missing: None})
        assert partly.words(str) == "nothing can be said about its end before it has told some values"
    steps = "90 steps in all, nine of ten within 120; 25 % that it never gets there"
    for moments in ({}, {"expected_at": at}, {"safe_at": at}):
        assert rule.model_copy(update=known | moments).words(str) == steps
    sure = rule.model_copy(update=known | {"reach": 1.0, "expected_at": at, "safe_at": at})
    assert sure.words(lambda moment: f"{moment:%H:%M}") == "by 00:00, nine of ten by 00:00"


@pytest.mark.parametrize(
    ("step", "speed", "guessed"),
    [(None, "guessed", True), (0, "guessed", False), (None, "learned", False), (None, None, False)],
)
@pytest.mark.parametrize("reports", [True, False])
def test_a_share_is_guessed_without_a_word_of_the_script(
    step: int | None, speed: str | None, guessed: bool, reports: bool
) -> None:
    told = step is not None or reports
    quote = None if speed is None else QuoteView(verdict="best_effort", reason="", speed=speed)
    job = JobDetail.model_construct(
        progress=ProgressView(step=step, remaining=1.0, work=2.0) if told else None, quote=quote
    )
    assert share_is_guessed(job) is guessed


def test_what_nothing_was_counted_of_is_zero() -> None:
    assert set(JobCountsView().model_dump().values()) == set(PromisesView().model_dump().values()) == {0}
