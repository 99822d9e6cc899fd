"""Random logs: entries that happen to jobs and nodes, sensible and not, in order of time."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from penstock.control.state.entries import (
    Absence,
    Cancelled,
    Configured,
    CostsLearned,
    CurveLearned,
    DecisionFailed,
    DeviceCame,
    DeviceLeft,
    Edited,
    Entry,
    FailureReported,
    Launched,
    NodeCame,
    NodeLeft,
    NodeReshaped,
    Paused,
    Progressed,
    Quarantined,
    Recipe,
    Resized,
    Resumed,
    RunFailed,
    RunFinished,
    RunReleased,
    RunSuspended,
    RunWatched,
    SaveFailed,
    Submitted,
    Ticked,
    Unblocked,
    WorkerLost,
)
from penstock.core import Amendment, BestEffort, Costs, Curve, Deadline, Node, Overhead, Report, ReportKind, Span
from penstock.scheduler.testing import jobs

NODES = (Node(name="a", device_count=4), Node(name="b", device_count=2), Node(name="c", device_count=2, kind="npu"))
RECIPE = Recipe(command=("python", "train.py"), env=(("SEED", "1"),), hang_after_s=60.0, fingerprint="f")
COSTS = [Costs(), Costs(start=Span(5.0, 9.0), resize=Span(1.0, 2.0), end=Span(2.0, 2.0))]
POLICIES = ["deadline", "elasticflow", "edf", "fifo", "srtf", "tiresias"]


@st.composite
def configurations(draw: st.DrawFn, at: float) -> Configured:
    return Configured(
        at=at, nodes=NODES, policy=draw(st.sampled_from(POLICIES)), slot=draw(st.sampled_from([0.0, 0.0, 30.0])),
        overhead=draw(st.sampled_from([Overhead(), Overhead(change_s=2.0, worst_s=5.0)])),
    )  # fmt: skip


@st.composite
def happenings(draw: st.DrawFn, at: float, number: int) -> Entry:
    """One thing that happens, to a job that may or may not be there and be in the right state for it."""
    job = f"job-{draw(st.integers(0, max(number, 1)))}"
    run = f"{job}.{draw(st.integers(0, 4))}"
    about: dict[str, Any] = {"at": at, "job_id": job}
    step = st.none() | st.integers(0, 500)
    small = st.integers(0, 6)
    node = draw(st.sampled_from(NODES))
    why = draw(st.sampled_from(Absence))
    kinds: list[st.SearchStrategy[Entry]] = [
        st.builds(Cancelled, **_just(about)),
        st.builds(Paused, **_just(about), by=st.just("ada")),
        st.builds(Resumed, **_just(about), goal=st.none() | st.sampled_from([BestEffort(), Deadline(at + 900.0)])),
        st.builds(Unblocked, **_just(about)),
        st.builds(
            Edited, **_just(about), spec=st.just({"work": 3}), name=st.just("other"), what=st.just("due in 20m"),
            amendment=st.sampled_from(
                [Amendment(priority=7), Amendment(goal=Deadline(at + 1200.0)), Amendment(at_least=1, at_most=2)]
            ),
        ),
        st.builds(Launched, **_just(about), run_id=st.just(run)),
        st.builds(Progressed, **_just(about), remaining=st.floats(0, 1e4), step=step),
        st.builds(Resized, **_just(about), run_id=st.just(run), generation=small, width=st.none() | small),
        st.builds(WorkerLost, **_just(about), run_id=st.just(run), worker=st.just("w0"), code=st.just(1)),
        st.builds(RunWatched, **_just(about), run_id=st.just(run), kind=st.just("stuck"), text=st.just("all wait")),
        st.builds(SaveFailed, **_just(about), run_id=st.just(run), step=step, reason=st.just("disk full")),
        st.builds(RunSuspended, **_just(about), run_id=st.just(run), step=step),
        st.builds(RunReleased, **_just(about), run_id=st.just(run)),
        st.builds(RunFinished, **_just(about), run_id=st.just(run)),
        st.builds(
            FailureReported, **_just(about), run_id=st.just(run), again=st.booleans(),
            report=st.builds(Report, run_id=st.just(run), seq=st.just(1), at=st.just(max(at, 0.0)),
                             kind=st.just(ReportKind.FAILED), step=step),
        ),
        st.builds(
            RunFailed, **_just(about), run_id=st.just(run), reason=st.just("exit"), step=step,
            tail=st.just(("a", "b")), retry_at=st.none() | st.just(at + 1),
        ),
        st.builds(
            CurveLearned, **_just(about), curve=st.just(Curve.from_table({1: 2.0, 2: 3.0})),
            fingerprint=st.sampled_from(["", "f", "unknown"]),
        ),
        st.builds(CostsLearned, at=st.just(at), fingerprint=st.just("f"), costs=st.sampled_from(COSTS)),
        st.builds(Quarantined, **_just(about), seq=st.just(10_000), kind=st.just("Ticked"), why=st.just("a fault")),
        st.builds(
            NodeLeft, at=st.just(at), node=st.just(node.name), why=st.just(why), reason=st.sampled_from(["", "hot"])
        ),
        st.builds(NodeCame, at=st.just(at), node=st.just(node), why=st.just(why)),
        st.builds(NodeReshaped, at=st.just(at), node=st.sampled_from([node, replace(node, device_count=3)])),
        st.builds(DeviceLeft, at=st.just(at), node=st.just(node.name), slot=small),
        st.builds(DeviceCame, at=st.just(at), node=st.just(node.name), slot=small),
        st.builds(DecisionFailed, at=st.just(at), why=st.just("a fault")),
        st.builds(Ticked, at=st.just(at)),
        configurations(at),
    ]  # fmt: skip
    return draw(st.one_of(kinds))


def _just(values: dict[str, Any]) -> dict[str, st.SearchStrategy[Any]]:
    return {name: st.just(value) for name, value in values.items()}


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """A log as it could have been written: a configuration first, then whatever happens."""
    now = 1000.0
    entries: list[Entry] = [draw(configurations(now))]
    submitted = 0
    for _ in range(draw(st.integers(1, 25))):
        now += draw(st.sampled_from([0.0, 0.0, 1.0, 30.0, 400.0]))
        if submitted == 0 or draw(st.integers(0, 2)) == 0:
            job = draw(jobs(submitted, now))
            entries.append(Submitted(at=now, job=job, name="n", recipe=RECIPE, spec={"work": 3, "deep": {"a": [1]}}))
            submitted += 1
        else:
            entries.append(draw(happenings(now, submitted)))
    return entries
