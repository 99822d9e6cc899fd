"""What is written is what is read, for every word the platform speaks."""

import json
import math
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.state.entries import Entry, RunFailed, Ticked
from penstock.core import (
    Admit,
    Amendment,
    BestEffort,
    Costs,
    CostsChanged,
    CurveChanged,
    Deadline,
    Decline,
    Defer,
    DeviceLost,
    DeviceRestored,
    DevicesReleased,
    Event,
    Grant,
    Instruction,
    Job,
    JobAmended,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobPaused,
    JobResumed,
    JobSubmitted,
    Launch,
    Node,
    NodeChanged,
    NodeClosed,
    NodeDraining,
    NodeJoined,
    NodeLost,
    OutlookChanged,
    PowerModel,
    Progress,
    Quote,
    Resize,
    ResumableChanged,
    Resume,
    Scaling,
    Span,
    Start,
    Stop,
    Strictness,
    Suspend,
    Tenant,
    TenantChanged,
    TenantRemoved,
    Tick,
    ValueStep,
    Verdict,
    Wake,
    Withdraw,
    Worker,
    WorkerFailed,
)
from penstock.core.codec import CodecError, build, decode, encode, plain, register
from penstock.scheduler.testing import curves, jobs
from tests.control.strategies import logs

times = st.floats(0, 1e10)
names = st.text(min_size=1, max_size=8)
goals = st.one_of(
    st.just(BestEffort()),
    st.builds(Deadline, st.floats(2e10, 3e10)),
    st.just(Deadline(2e10, Strictness.SOFT, (ValueStep(3e10, 0.5), ValueStep(4e10, 0.125)))),
)
any_job = st.builds(lambda job, goal: replace(job, goal=goal), jobs(1, 5.0), goals)
nodes = st.builds(
    Node, name=names, device_count=st.integers(1, 16), power=st.builds(PowerModel, st.floats(0, 9), st.floats(9, 99))
)
quotes = st.builds(
    Quote, job_id=names, verdict=st.sampled_from(Verdict), reason=names, finish_at=times | st.just(math.inf),
    devices=st.integers(0, 99), counter_offer=times | st.just(math.inf),
)  # fmt: skip
spans = st.builds(lambda likely, more: Span(likely, likely + more), st.floats(0, 1e5), st.floats(0, 1e5))
costs = st.builds(Costs, start=spans, resize=spans, end=spans)
amendments = st.builds(
    Amendment, goal=st.none() | goals, priority=st.none() | st.integers(0, 100), at_least=st.none() | st.integers(1, 9),
    at_most=st.none() | st.integers(9, 99),
)  # fmt: skip
grants = st.builds(Grant, names, names, st.lists(st.integers(0, 99)).map(tuple), st.integers(1, 9))
EVENTS: dict[type, st.SearchStrategy[Event]] = {
    JobSubmitted: st.builds(JobSubmitted, times, any_job),
    JobCancelled: st.builds(JobCancelled, times, names),
    Progress: st.builds(Progress, times, names, times),
    OutlookChanged: st.builds(OutlookChanged, times, names, times, times, st.floats(0, 1)),
    JobFinished: st.builds(JobFinished, times, names),
    DevicesReleased: st.builds(DevicesReleased, times, names),
    CurveChanged: st.builds(CurveChanged, times, names, curves()),
    CostsChanged: st.builds(CostsChanged, times, names, costs),
    ResumableChanged: st.builds(ResumableChanged, times, names, st.booleans()),
    WorkerFailed: st.builds(WorkerFailed, times, names),
    NodeLost: st.builds(NodeLost, times, names, names),
    NodeClosed: st.builds(NodeClosed, times, names, names, st.lists(st.integers(0, 99)).map(tuple)),
    NodeJoined: st.builds(NodeJoined, times, nodes),
    JobPaused: st.builds(JobPaused, times, names),
    JobResumed: st.builds(JobResumed, times, names, st.none() | goals),
    JobAmended: st.builds(JobAmended, times, names, amendments, st.booleans()),
    JobFailed: st.builds(JobFailed, times, names, names),
    NodeChanged: st.builds(NodeChanged, times, nodes, st.booleans()),
    DeviceLost: st.builds(DeviceLost, times, names, st.integers(0, 99)),
    DeviceRestored: st.builds(DeviceRestored, times, names, st.integers(0, 99)),
    NodeDraining: st.builds(NodeDraining, times, names, times | st.just(math.inf)),
    TenantChanged: st.builds(TenantChanged, times, st.builds(Tenant, name=names, quota=st.none() | st.integers(0, 9))),
    TenantRemoved: st.builds(TenantRemoved, times, names),
    Tick: st.builds(Tick, times | st.just(-math.inf)),
}
INSTRUCTIONS: dict[type, st.SearchStrategy[Instruction]] = {
    Admit: st.builds(Admit, quotes),
    Defer: st.builds(Defer, quotes),
    Decline: st.builds(Decline, quotes),
    Withdraw: st.builds(Withdraw, quotes),
    Start: st.builds(Start, grants),
    Resize: st.builds(Resize, grants),
    Resume: st.builds(Resume, grants),
    Suspend: st.builds(Suspend, names),
    Stop: st.builds(Stop, names, names),
    Wake: st.builds(Wake, times | st.just(math.inf)),
}


def _there_and_back(value: object) -> object:
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


def test_every_event_and_instruction_is_tried_here() -> None:
    assert set(EVENTS) == set(get_args(Event))
    assert set(INSTRUCTIONS) == set(get_args(Instruction))


@given(st.one_of(*EVENTS.values(), *INSTRUCTIONS.values()))
def test_events_and_instructions_survive(value: object) -> None:
    assert _there_and_back(value) == value


def test_a_goal_that_was_written_before_values_had_steps_is_read() -> None:
    old = {"v": 2, "type": "Deadline", "at": 90.0, "strictness": "soft"}
    assert decode(old) == Deadline(90.0, Strictness.SOFT)


@given(logs())
@settings(max_examples=25, deadline=None)
def test_entries_survive(entries: list[Entry]) -> None:
    assert [_there_and_back(entry) for entry in entries] == entries


def test_a_spread_curve_and_a_launch_survive() -> None:
    scaling = Scaling(counts=(1, 2), rates=(1.0, 2.0), spread=((2, 2, 1.5),))
    assert build(Scaling, json.loads(json.dumps(plain(scaling)))) == scaling
    worker = Worker(id="w0", rank=0, node="node-0", slot=3, device_env=(("A", "b"),))
    launch = Launch(run_id="r", job_id="j", command=("x",), workers=(worker,), hang_after_s=None)
    assert build(Launch, json.loads(json.dumps(plain(launch)))) == launch


def test_a_field_that_nobody_ever_read_is_passed_over_in_old_logs() -> None:
    old = encode(NodeJoined(1.0, Node(name="n", device_count=2)))
    old["node"]["region"] = ""
    assert decode(old) == NodeJoined(1.0, Node(name="n", device_count=2))


def test_a_field_that_an_old_log_does_not_have_takes_its_default() -> None:
    old = encode(RunFailed(at=1.0, job_id="j", run_id="j.1", reason="exit"))
    del old["tail"], old["retry_at"]
    assert decode(old) == RunFailed(at=1.0, job_id="j", run_id="j.1", reason="exit")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"v": 3}, "format version 3"),
        ({"type": "Exploded"}, "unknown type 'Exploded'"),
        ({"colour": "red"}, "unknown fields colour"),
        ({"at": "yesterday"}, "not a Ticked"),
        ({"at": None}, "not a Ticked"),
    ],
)
def test_what_a_newer_version_wrote_is_refused_and_not_half_understood(change: dict[str, object], message: str) -> None:
    with pytest.raises(CodecError, match=message):
        decode({**encode(Ticked(at=1.0)), **change})


def test_names_in_the_log_are_unique() -> None:
    class Ticked:
        pass

    with pytest.raises(CodecError, match="two types"):
        register(Ticked)
    with pytest.raises(CodecError, match="register it"):
        encode(Job)
