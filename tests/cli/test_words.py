"""Moments, promises and progress as people read them in a terminal."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock.cli.submission.submit import remarks
from penstock.cli.terminal import console
from penstock.cli.terminal.format import (
    BAR_CELLS,
    ago,
    bar,
    clock,
    due,
    quote_lines,
    share_done,
    usage_lines,
    value_lines,
)
from penstock.core import UnknownNameError, counted
from penstock.spec import parse_job
from penstock.wire import JobDetail, JobView, ProgressView, QuoteView, UsageView, ValueStepView, tells_nothing

NOW = datetime.now(UTC)
LATER = NOW + timedelta(days=2, hours=1)


def job(**fields: object) -> JobView:
    plain = {"id": "j-1", "number": 1, "name": "n", "tenant": "t", "state": "running", "submitted_at": NOW}
    return JobView.model_validate({**plain, **fields})


def detail(state: str, progress: ProgressView | None) -> JobDetail:
    return JobDetail.model_construct(state=state, progress=progress)


def test_moments_are_told_from_now() -> None:
    assert ago(None) == "-"
    assert ago(NOW - timedelta(days=3)).startswith("3d")
    assert ago(NOW + timedelta(days=2, hours=1)).startswith("in 2d")


def test_a_moment_is_told_in_whole_seconds() -> None:
    assert ago(datetime.now(UTC) - timedelta(seconds=0.2)) == "now"
    assert ago(datetime.now(UTC) - timedelta(seconds=5.2)) in ("5s ago", "6s ago")


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (1, "promise", "1 promise"), (0, "promise", "0 promises"), (1400, "job", "1,400 jobs"),
        (1.0, "iteration", "1 iteration"), (2.19301, "iteration", "2.19 iterations"),
        (1412.08, "iteration", "1,412 iterations"), (3e7, "iteration", "30,000,000 iterations"),
    ],
)  # fmt: skip
def test_a_count_has_its_noun_in_singular_or_plural(count: float, noun: str, words: str) -> None:
    assert counted(count, noun) == words


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert "Did you mean 'h100'?" in str(UnknownNameError.of("device", "H1000", ["v100", "h100"]))


def test_the_date_is_told_only_when_it_is_another_day() -> None:
    assert clock(None) == "-"
    assert len(clock(datetime.now(UTC))) == len("12:34:56")
    assert clock(datetime(2001, 2, 3, 4, 5, tzinfo=UTC)).startswith("2001-02-0")


def test_a_promise_is_told_line_by_line() -> None:
    quote = QuoteView(
        verdict="promised", reason="it fits", finish_at=LATER, devices=4, device_seconds=7200, expected_at=NOW,
        speed="measured",
    )  # fmt: skip
    first, expected, planned, time = quote_lines(quote)
    assert first == "promised: it fits"
    assert expected.startswith("expected to be done at ")
    assert planned.endswith("on up to 4 devices, if need be")
    assert time == "device time: 2h"


@pytest.mark.parametrize("speed", ["guessed", "predicted"])
def test_what_a_promise_rests_on_is_said_where_it_is_doubtful(speed: str) -> None:
    _, doubt = quote_lines(QuoteView(verdict="best_effort", reason="when it can", speed=speed))
    assert f"{speed}" in doubt or "a guess" in doubt
    assert "penstock quote --measure" in doubt


def test_one_device_is_one_and_marks_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    planned = quote_lines(QuoteView(verdict="promised", reason="it fits", finish_at=LATER, devices=1))[1]
    assert planned.endswith("on 1 device, if need be")
    console.out.print("root:x:0:0")
    assert capsys.readouterr().out == "root:x:0:0\n"


def test_a_refusal_names_the_deadline_that_could_be_kept_and_a_delay_its_end() -> None:
    _, offer = quote_lines(QuoteView(verdict="refused", reason="too much", counter_offer=LATER))
    assert offer.startswith("earliest deadline that can be promised now: ")
    _, answer = quote_lines(QuoteView(verdict="deferred", reason="not yet", answer_by=LATER))
    assert answer.startswith("final answer by ")


def test_what_late_is_worth_is_said_in_one_line_and_what_is_expected_in_another() -> None:
    job = detail("running", None)
    assert value_lines(job) == []
    soft = job.model_copy(update={"values": [ValueStepView(until=LATER, value=0.5)], "expected_value": 0.5})
    assert value_lines(soft) == [
        f"then worth 50% until {clock(LATER)}, then nothing", "expected: 50% of its value",
    ]  # fmt: skip
    done = soft.model_copy(update={"state": "finished", "expected_value": 1.0})
    assert value_lines(done)[1] == "got: 100% of its value"


@pytest.mark.parametrize(
    ("state", "progress", "share"),
    [
        ("finished", None, 1.0),
        ("running", None, 0.0),
        ("running", ProgressView(remaining=25, work=100), 0.75),
        ("running", ProgressView(remaining=150, work=100), 0.0),
        ("running", ProgressView(remaining=-1, work=100), 1.0),
        ("running", ProgressView(remaining=0, work=0), 0.0),
        ("failed", ProgressView(remaining=0, work=100, step=5), 0.05),
        ("failed", ProgressView(remaining=0, work=100, step=5, total=10), 0.5),
        ("declined", ProgressView(remaining=0, work=100), 0.0),
    ],
)
def test_how_much_is_done_stays_between_nothing_and_all(
    state: str, progress: ProgressView | None, share: float
) -> None:
    assert share_done(detail(state, progress)) == share


def test_a_guess_is_no_progress() -> None:
    guessed = QuoteView(verdict="deferred", reason="", speed="guessed")
    silent = detail("asking", ProgressView(remaining=25, work=100)).model_copy(
        update={"quote": guessed, "devices": [0], "started_at": datetime.now(UTC) - timedelta(minutes=1)}
    )
    assert share_done(silent) == 0.0
    assert tells_nothing(silent, datetime.now(UTC).timestamp())
    told = silent.model_copy(update={"progress": ProgressView(remaining=25, work=100, step=75)})
    assert share_done(told) == 0.75
    assert not tells_nothing(told, datetime.now(UTC).timestamp())


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_a_bar_has_always_the_same_length(share: float) -> None:
    drawn = bar(share)
    assert len(drawn) == BAR_CELLS + len(" 100%")
    assert drawn.count("█") == round(share * BAR_CELLS)


def test_a_job_is_due_when_it_is_expected_else_when_it_was_planned() -> None:
    planned = QuoteView(verdict="promised", reason="", finish_at=LATER)
    assert due(job(quote=planned)).startswith("in 2d")
    assert due(job(quote=planned, expected_at=NOW - timedelta(days=1))).endswith(" ago")
    assert due(job()) == "-"


def test_an_end_on_a_guess_is_not_known_yet() -> None:
    guess = {"verdict": "best effort", "reason": "when it can", "speed": "guessed"}
    assert due(job(quote=guess)) == "not known yet"
    assert due(job(quote=guess, expected_at=LATER)).startswith("in 2d")
    assert due(job(quote=guess, state="finished")) == "-"


def test_what_a_job_uses_and_may_use() -> None:
    job = JobDetail(
        id="j", number=1, name="n", tenant="t", state="running", submitted_at=NOW,
        spec={"limits": {"memory": "8GB", "cpus": 4}},
    )  # fmt: skip
    assert usage_lines(job) == ["limits: 8GB of memory and 4 processors for each device"]
    told = {
        "at": NOW,
        "cpu_percent": 250.0,
        "memory_bytes": 10**9,
        "peak_cpu_percent": 300.0,
        "peak_memory_bytes": 2 * 10**9,
    }
    used = UsageView.model_validate({**told, "memory_limit_bytes": 8 * 10**9})
    (_, line) = usage_lines(job.model_copy(update={"usage": used}))
    assert line == "uses 2.5 processors, 1.0GB of memory of 8.0GB at most, 2.0GB at its peak"
    free = UsageView.model_validate({**told, "unlimited": "nobody sees to its limits"})
    assert usage_lines(job.model_copy(update={"spec": {}, "state": "finished", "usage": free})) == [
        "used 2.5 processors, 1.0GB of memory, 2.0GB at its peak",
        "nobody sees to its limits",
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"command": "torchrun --nproc-per-node=2 a.py"},
            "without torchrun: Penstock starts a worker for each device",
        ),
        ({"command": "torchrun --nproc-per-node=2 a.py", "devices": 4}, "for each device, with the same variables"),
        ({"command": "deepspeed a.py"}, "deepspeed starts workers itself, on every device, and so does Penstock"),
        ({"command": "python a.py"}, "on one device: nothing says that it can change their number"),
        ({"command": "python a.py", "devices": 2}, None),
        ({"command": "python a.py", "resumable": True}, None),
    ],
)
def test_what_is_not_done_as_other_launchers_do_is_said(values: dict[str, object], said: str | None) -> None:
    found = list(remarks(parse_job({**values, "work": 5})))
    assert len(found) == (said is not None)
    assert said is None or said in found[0]
