"""A failed run is diagnosed by itself: it decides the retry, drains a bad node, and is told wherever somebody looks."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.loop import report_intake
from penstock.control.loop.cordons import cordons
from penstock.control.loop.diagnoses import PATIENCE_S
from penstock.control.loop.run_diagnosis import RunDiagnoser
from penstock.control.loop.run_figures import RunFigures
from penstock.control.state.entries import Absence, FailureReported, NodeLeft, RunFailed
from penstock.core import SURE, Culprit, Curve, Diagnosis, Node, Remedy, Report, ReportKind, Scaling, Source, Usage
from penstock.wire import JobPhase
from tests.control.build import ADMIN, Platform, platform

KEY_ERROR = (
    b"[0] Traceback (most recent call last):\n"
    b'[0]   File "/home/me/train.py", line 7, in <module>\n'
    b"[0] KeyError: 'tokens'\n"
)
ECC = b"[1] RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
OUT_OF_MEMORY = b"[0] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
FLAKY = b"[0] OSError: [Errno 116] Stale file handle\n"


def failed_run(world: Platform, output: bytes, *, steps: float = 5.0, **spec: object) -> str:
    """A job whose first run prints something and ends with code 1 after some steps."""
    job = world.submit(work=1000, **spec)
    world.passes(steps)
    world.backend.output[f"{job}.1"] = output
    world.backend.fail(f"{job}.1", tail=tuple(output.decode().splitlines()))
    world.passes()
    return job


@pytest.mark.parametrize(
    ("output", "category", "phase"),
    [
        (KEY_ERROR, "unknown", JobPhase.FAILED),
        (OUT_OF_MEMORY, "mem.gpu_oom", JobPhase.FAILED),
        (FLAKY, "storage.io", JobPhase.RUNNING),
        (b"[0] nothing in particular\n", "unknown", JobPhase.RUNNING),
    ],
)
def test_the_diagnosis_decides_whether_it_is_tried_again(
    world: Platform, output: bytes, category: str, phase: JobPhase
) -> None:
    job = failed_run(world, output)
    world.passes(5)
    record = world.record(job)
    assert record.diagnosis is not None
    assert (record.diagnosis.category, world.phase(job)) == (category, phase)


def test_who_asks_for_retries_gets_them_whatever_the_diagnosis(world: Platform) -> None:
    job = failed_run(world, KEY_ERROR, retries=2)
    world.passes(5)
    assert world.phase(job) is JobPhase.RUNNING


def test_show_why_and_the_log_tell_it_also_after_a_restart(world: Platform) -> None:
    job = failed_run(world, KEY_ERROR)
    for _ in range(2):
        detail = world.platform.job(job, ADMIN)
        assert detail.diagnosis is not None
        assert "KeyError: 'tokens' at /home/me/train.py:7" in detail.diagnosis.cause
        assert (detail.diagnosis.action, detail.diagnosis.culprit.rank) == ("fix_code", 0)
        assert any("KeyError: 'tokens'" in note.text for note in world.platform.why(job, ADMIN).entries)
        told = [event for event in world.platform.events(ADMIN, job).events if event.kind == "RunFailed"]
        assert told[0].payload["diagnosis"]["category"] == "unknown"
        world.restart()


def test_a_bad_node_is_drained_and_the_job_goes_on_elsewhere(tmp_path: Path) -> None:
    nodes = (Node(name="good", device_count=2), Node(name="bad", device_count=2))
    with platform(tmp_path, nodes=nodes) as world:
        job = world.submit(work=1000)
        world.passes(5)
        bad = next(worker.rank for worker in world.record(job).workers if worker.node == "bad")
        output = ECC.replace(b"[1]", b"[%d]" % bad)
        lost = next(worker.id for worker in world.record(job).workers if worker.rank == bad)
        world.backend.tell(f"{job}.1", ReportKind.WORKER_EXITED, worker=lost, rank=bad, code=1)
        world.backend.output[f"{job}.1"] = output
        world.backend.fail(f"{job}.1", tail=(output.decode(),))
        world.passes(5)
        assert world.journal.state.absent == {"bad": Absence.DRAINED}
        assert {worker.node for worker in world.record(job).workers} == {"good"}
        shown = {node.name: node.unusable for node in world.platform.nodes(ADMIN)}
        assert "hw.gpu_ecc" in shown["bad"][0]
        world.restart()
        assert "hw.gpu_ecc" in {node.name: node.unusable for node in world.platform.nodes(ADMIN)}["bad"][0]
        world.platform.undrain("bad", ADMIN)
        assert {node.name: node.unusable for node in world.platform.nodes(ADMIN)}["bad"] == []


def test_workers_that_were_told_to_go_are_no_cause(world: Platform) -> None:
    job = world.submit(work=1000)
    world.passes(5)
    world.backend.tell(f"{job}.1", ReportKind.WORKER_EXITED, worker="w1", rank=1, signal=15, reason="asked")
    world.backend.fail(f"{job}.1", tail=("no words",))
    world.passes()
    record = world.record(job)
    assert record.diagnosis is not None
    assert record.diagnosis.category == "unknown"


def test_the_only_node_is_never_drained_but_told_of(world: Platform) -> None:
    job = failed_run(world, ECC)
    assert world.journal.state.absent == {}
    assert any("the only one" in note.text for note in world.platform.why(job, ADMIN).entries)


def test_a_log_that_cannot_be_read_costs_the_diagnosis_and_not_the_failure(world: Platform) -> None:
    job = world.submit(work=1000)
    world.passes(5)

    def broken(*_: object) -> tuple[bytes, int]:
        raise OSError("the log server is away")

    world.backend.logs = broken
    world.backend.fail(f"{job}.1", tail=("[0] RuntimeError: CUDA out of memory. Tried to allocate 1 GiB",))
    world.passes()
    record = world.record(job)
    assert record.diagnosis is not None
    assert record.diagnosis.category == "mem.gpu_oom"


def test_of_a_huge_log_the_beginning_and_the_end_are_read(world: Platform) -> None:
    job = world.submit(work=1000)
    world.passes(5)
    run_id = f"{job}.1"
    world.backend.output[run_id] = b"step 1 loss 2.3\n" * (3 << 20) + OUT_OF_MEMORY
    asked = 0
    logs = world.backend.logs

    def counted(run: str, worker: str | None, offset: int, limit: int) -> tuple[bytes, int]:
        nonlocal asked
        data, following = logs(run, worker, offset, limit)
        asked += len(data)
        return data, following

    world.backend.logs = counted
    report = Report(run_id=run_id, seq=9, at=1.0, kind=ReportKind.FAILED, reason="exit", code=1)
    found = RunDiagnoser(world.backend).diagnosis(report, world.record(job), Usage())
    assert found is not None
    assert found.category == "mem.gpu_oom"
    assert asked < 40 << 20


def test_an_out_of_memory_says_what_would_fit(world: Platform) -> None:
    job = world.submit(work=1000)
    world.passes(5)
    report = Report(run_id=f"{job}.1", seq=9, at=1.0, kind=ReportKind.FAILED, reason="signal", code=None, signal=9)
    full = Usage(memory_limit_bytes=2_000_000_000, memory_peak_bytes=2_000_000_000)
    found = RunDiagnoser(world.backend).diagnosis(report, world.record(job), full)
    assert found is not None
    assert found.category == "mem.host_oom"
    assert "limits.memory" in found.fix


def test_an_out_of_memory_on_devices_names_the_width_that_is_predicted_to_fit(world: Platform) -> None:
    job = world.submit(work=1000, at_most=1)
    world.passes(5)
    record = world.record(job)
    world.backend.output[f"{job}.1"] = OUT_OF_MEMORY
    report = Report(run_id=f"{job}.1", seq=9, at=1.0, kind=ReportKind.FAILED, reason="exit", code=1)

    def fix(curve: Curve) -> str:
        record.job = replace(record.job, curve=curve)
        found = RunDiagnoser(world.backend).diagnosis(report, record, Usage())
        assert found is not None
        return found.fix

    kind = record.grant.kind
    predicted = Scaling(counts=(1, 4), rates=(1.0, 3.0), source=Source.PREDICTED)
    assert f"penstock edit {job} --devices 4.." in fix(Curve(((kind, predicted),)))
    assert "smaller" in fix(Curve(((kind, replace(predicted, counts=(1,), rates=(1.0,))),)))
    assert "penstock predict" in fix(Curve(((kind, replace(predicted, source=Source.MEASURED)),)))


def test_a_failure_of_an_earlier_version_has_no_diagnosis(world: Platform) -> None:
    entry = RunFailed(at=1.0, job_id="j", run_id="j.1", reason="exit")
    assert entry.diagnosis is None


@pytest.mark.parametrize(
    ("remedy", "confidence", "node", "is_drained"),
    [
        (Remedy.CORDON_AND_RESTART, SURE, "bad", True), (Remedy.CORDON_AND_RESTART, SURE - 0.01, "bad", False),
        (Remedy.RETRY, 1.0, "bad", False), (Remedy.CORDON_AND_RESTART, 1.0, "gone", False),
    ],
)  # fmt: skip
def test_a_node_is_drained_for_a_failure_that_is_surely_its_own(
    remedy: Remedy, confidence: float, node: str, is_drained: bool, tmp_path: Path
) -> None:
    found = Diagnosis(category="hw.gpu_ecc", confidence=confidence, action=remedy, culprit=Culprit(node=node))
    failed = RunFailed(at=1.0, job_id="j", run_id="j.1", reason="", diagnosis=found)
    with platform(tmp_path, nodes=(Node(name="good", device_count=2), Node(name="bad", device_count=2))) as world:
        world.passes()
        left = [each.node for each in cordons([failed], world.journal.state) if isinstance(each, NodeLeft)]
    assert left == ["bad"] * is_drained


def test_a_run_without_output_is_diagnosed_by_its_last_words(world: Platform) -> None:
    job = world.submit(work=1000)
    world.passes(5)
    world.backend.output[f"{job}.1"] = b""
    world.backend.fail(f"{job}.1", tail=(OUT_OF_MEMORY.decode(),))
    world.passes()
    found = world.record(job).diagnosis
    assert found is not None
    assert found.category == "mem.gpu_oom"


def test_the_figures_of_the_last_runs_that_are_gone_are_kept(world: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_intake, "_FIGURES_KEPT", 2)
    intake = world.reconciler._intake
    for number in range(5):
        intake.figures[f"run-{number}"] = RunFigures()
        intake.drop_old_figures({"run-0"})
    assert list(intake.figures) == ["run-0", "run-3", "run-4"]


def broken_job(world: Platform, *, tenant: str = "default") -> str:
    """A job whose failure the loop has heard of."""
    job = world.submit(work=1000, at_most=1, tenant=tenant)
    world.passes(5)
    world.backend.output[f"{job}.1"] = OUT_OF_MEMORY
    world.backend.fail(f"{job}.1", tail=(OUT_OF_MEMORY.decode(),))
    world.passes()
    return job


def happened(world: Platform, job: str) -> list[str]:
    kinds = (FailureReported.__name__, RunFailed.__name__)
    return [event.kind for event in world.platform.events(ADMIN, job).events if event.kind in kinds]


def make(world: Platform) -> None:
    """Make the diagnoses that have begun."""
    assert world.diagnoses is not None
    while world.diagnoses:
        world.diagnoses.pop(0)()
    world.passes()


def test_a_failure_is_recorded_first_and_holds_up_nobody_until_it_is_diagnosed(tmp_path: Path) -> None:
    with platform(tmp_path, diagnoses=[]) as world:
        job = broken_job(world)
        assert happened(world, job) == ["FailureReported"]
        assert "being read for the cause" in world.platform.why(job, ADMIN).now
        other = world.submit(work=10, tenant="blue")
        world.passes(30)
        assert world.phase(other) is JobPhase.RUNNING
        assert list(world.backend.all_runs) == [f"{job}.1", f"{other}.1"], "it was tried again before it was decided"
        make(world)
        assert happened(world, job) == ["FailureReported", "RunFailed"]
        record = world.record(job)
        assert record.diagnosis is not None
        assert (record.diagnosis.category, world.phase(job)) == ("mem.gpu_oom", JobPhase.FAILED)
        assert "--devices" in record.diagnosis.fix or "penstock predict" in record.diagnosis.fix


def test_after_a_restart_a_failure_is_diagnosed_once_more_and_not_again(tmp_path: Path) -> None:
    with platform(tmp_path, diagnoses=[]) as world:
        job = broken_job(world)
        world.restart()
        world.passes()
        assert len(world.diagnoses or ()) == 1
        world.restart()
        world.passes()
        assert world.diagnoses == []
        record = world.record(job)
        assert record.diagnosis is not None
        assert "interrupted twice" in record.diagnosis.cause
        assert happened(world, job)[-1] == "RunFailed"


def test_a_failure_waits_for_its_turn_and_not_for_ever(tmp_path: Path) -> None:
    with platform(tmp_path, diagnoses=[]) as world:
        first, second, other = (broken_job(world, tenant=tenant) for tenant in ("red", "red", "blue"))
        assert len(world.diagnoses or ()) == 2, "one for each tenant"
        world.clock.time += PATIENCE_S
        world.passes()
        record = world.record(second)
        assert record.diagnosis is not None
        assert "did not begin" in record.diagnosis.cause
        make(world)
        assert {world.phase(job) for job in (first, other)} == {JobPhase.FAILED}


def test_one_that_is_cancelled_meanwhile_is_not_decided(tmp_path: Path) -> None:
    with platform(tmp_path, diagnoses=[]) as world:
        job = broken_job(world)
        world.commands.cancel(job, ADMIN)
        make(world)
        assert happened(world, job) == ["FailureReported"]
        assert world.phase(job) is JobPhase.CANCELLED


def test_a_run_whose_processes_are_gone_is_diagnosed_too(world: Platform) -> None:
    job = world.submit(work=1000)
    world.passes(5)
    world.backend.output[f"{job}.1"] = OUT_OF_MEMORY
    world.backend.tell(f"{job}.1", ReportKind.WORKER_STARTED)
    world.backend.all_runs[f"{job}.1"].alive = False
    world.passes(10)
    record = world.record(job)
    assert record.diagnosis is not None
    assert (record.reason, record.diagnosis.category) == ("lost", "mem.gpu_oom")
