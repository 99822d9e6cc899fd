"""What only a batch system does to runs: drains, jobs of others, cancelled parts, a controller that is away."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from penstock.backends.agent.parts import Part
from penstock.backends.slurm import SlurmBackend, SlurmSettings
from penstock.backends.slurm.commands import SlurmCommands, SlurmError
from penstock.backends.slurm.nodes import held_by_others, parse_nodes
from penstock.backends.slurm.parts import batch_script
from penstock.backends.slurm.queue import PREFIX, BatchName, BatchQueue
from penstock.backends.testing import cpu_worker, make_launch, wait_for, wait_for_end, wait_for_output, workers_on
from penstock.core import (
    INTERPRETER,
    NO_DEVICE,
    AgentAddress,
    ClusterError,
    Container,
    DeviceSlot,
    InputError,
    PenstockError,
    Recipe,
    ReportKind,
    RunState,
    UnknownNameError,
)
from tests.backends.fake_tools import fake_apptainer
from tests.backends.watching import CAREFUL, SLEEPER, output, processes_of, python, status, until
from tests.backends.watching import make_launch as local_launch
from tests.tools.slurm import GPU_NODE, GPU_PARTITION, GPUS, NODES, PARTITION, SlurmCluster, running_slurm

ELASTIC = (sys.executable, str(Path(__file__).with_name("elastic_worker.py")))
RUN = "run-1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with running_slurm(tmp_path_factory.mktemp("slurm") / "cluster") as running:
        yield running


@pytest.fixture
def backend(tmp_path: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmBackend]:
    monkeypatch.setenv("SLURM_CONF", str(cluster.configuration))
    monkeypatch.setattr("penstock.backends.slurm.watch.NODES_EVERY_S", 0.0)
    state = tmp_path / "state"
    made = SlurmBackend(state, SlurmSettings(partition=PARTITION, owner=True, host="127.0.0.1"))
    yield made
    for run in made.runs():
        if run.alive:
            made.stop(run.run_id, 0.0)
    until(lambda: not any(run.alive for run in made.runs()), "all agents to leave")
    assert processes_of(state) == []


def jobs_of(cluster: SlurmCluster) -> list[str]:
    shown = cluster.run("squeue", "--noheader", "--format=%i %j").splitlines()
    return [line for line in shown if f" {PREFIX}" in line]


def job_of(cluster: SlurmCluster, part: str) -> str:
    return next(line.split()[0] for line in jobs_of(cluster) if f"/{part}/" in line)


def test_a_drained_node_and_jobs_of_others_are_told_in_slurms_words(
    backend: SlurmBackend, cluster: SlurmCluster
) -> None:
    assert [(node.name, node.kind, node.device_count) for node in backend.nodes()] == [(n, "cpu", 4) for n in NODES]
    assert backend.unusable() == {}
    cluster.run("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=bad fan")
    theirs = cluster.run("sbatch", "--parsable", "-w", "n2", "-c", "2", "-o", "/dev/null", "--wrap", "sleep 60").strip()
    until(lambda: DeviceSlot("n2", 3) in backend.unusable(), "what others hold")
    lost = backend.unusable()
    assert {place for place in lost if place.node == "n3"} == {DeviceSlot("n3", slot) for slot in range(4)}
    assert "DRAIN" in lost[DeviceSlot("n3", 0)]
    assert "bad fan" in lost[DeviceSlot("n3", 0)]
    assert sorted(place.slot for place in lost if place.node == "n2") == [2, 3]
    cluster.run("scancel", theirs)
    cluster.run("scontrol", "update", "NodeName=n3", "State=RESUME")
    until(lambda: backend.unusable() == {}, "both to be back")


def test_a_cancelled_part_is_a_lost_worker_and_nothing_of_the_run_stays_in_the_queue(
    backend: SlurmBackend, cluster: SlurmCluster
) -> None:
    places = [DeviceSlot("n0", 0), DeviceSlot("n1", 0)]
    backend.launch(make_launch(backend, python(SLEEPER), workers=workers_on(places)))
    wait_for(backend, RUN, ReportKind.WORKER_STARTED, count=2)
    secret = next((backend.state_dir / "runs" / RUN / "parts").glob("*.secret")).read_text()
    described = cluster.run("scontrol", "show", "job", job_of(cluster, "w1-2"))
    script = cluster.run("scontrol", "write", "batch_script", job_of(cluster, "w1-2"), "-")
    assert secret not in described + script
    assert not any(secret in " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    cluster.run("scancel", job_of(cluster, "w1-2"))
    last = wait_for_end(backend, RUN)
    assert last.kind is ReportKind.FAILED
    assert jobs_of(cluster) == []


def test_a_plain_run_saves_when_its_host_is_asked_to_leave(backend: SlurmBackend, cluster: SlurmCluster) -> None:
    backend.launch(make_launch(backend, python(CAREFUL), workers=workers_on([DeviceSlot("n0", 1)])))
    wait_for_output(backend, RUN, "here")
    cluster.run("scancel", "--batch", "--signal=TERM", job_of(cluster, "w0-1"))
    last = wait_for_end(backend, RUN)
    assert (last.kind, last.reason) == (ReportKind.FAILED, "evicted")
    assert "saved" in output(backend, RUN)


def test_batch_jobs_of_a_killed_agent_end_before_its_run_is_told_to_be_dead(
    backend: SlurmBackend, cluster: SlurmCluster
) -> None:
    backend.launch(make_launch(backend, python(SLEEPER)))
    wait_for(backend, RUN, ReportKind.WORKER_STARTED)
    assert len(jobs_of(cluster)) == 1
    os.kill(backend.reports(RUN, 0)[0].pid or 0, signal.SIGKILL)
    until(lambda: status(backend, RUN).state is RunState.ENDED, "the end of the run")
    assert jobs_of(cluster) == []


def test_a_run_lives_on_while_the_controller_is_away_and_what_is_asked_meanwhile_is_done_later(
    backend: SlurmBackend, cluster: SlurmCluster
) -> None:
    first, second = DeviceSlot("n0", 0), DeviceSlot("n1", 0)
    backend.launch(make_launch(backend, python(SLEEPER), workers=workers_on([first])))
    wait_for(backend, RUN, ReportKind.WORKER_STARTED)
    cluster.stop_controller()
    try:
        backend.launch(make_launch(backend, python("print('later')"), run_id="run-2", workers=workers_on([second])))
        until(lambda: status(backend, "run-2").state is RunState.WAITING, "a run that waits for the controller")
        told = status(backend, "run-2").reason
        assert "has not answered" in told or "Unable to contact slurm controller" in told
        assert len(backend.nodes()) == 4
        assert status(backend, RUN).state is RunState.RUNNING
    finally:
        cluster.start_controller()
    assert wait_for_end(backend, "run-2").kind is ReportKind.FINISHED
    assert output(backend, "run-2", "w0") == "later\n"


def test_an_elastic_run_outlives_a_drained_place_and_a_lost_node(backend: SlurmBackend, cluster: SlurmCluster) -> None:
    """The place goes with a signal to its host; the node with the daemon that Slurm does not hear of any more."""
    places = [DeviceSlot(node, 0) for node in NODES[:3]]
    backend.launch(make_launch(backend, ELASTIC, workers=workers_on(places[:2]), grace_s=10.0))
    wait_for(backend, RUN, ReportKind.PROGRESS, width=2)
    backend.resize(RUN, workers_on(places), 1)
    assert wait_for(backend, RUN, ReportKind.RESIZED, width=3).in_place
    cluster.run("scancel", "--batch", "--signal=TERM", job_of(cluster, "w2-3"))
    wait_for(backend, RUN, ReportKind.RESIZED, width=2)
    wait_for(backend, RUN, ReportKind.PROGRESS, count=2, width=2)
    cluster.stop("n1")
    try:
        assert wait_for(backend, RUN, ReportKind.RESIZED, width=1).in_place
        told = {one.worker: one.reason for one in backend.reports(RUN, 0) if one.kind is ReportKind.WORKER_EXITED}
        assert told["w1"] == "node_lost"
        until(lambda: "DOWN" in backend.unusable().get(DeviceSlot("n1", 3), ""), "the lost node")
        until(lambda: not workers_alive("w1"), "the end of who was given up")
    finally:
        cluster.start_node("n1")
    until(lambda: DeviceSlot("n1", 0) not in backend.unusable(), "the node to be back")


def workers_alive(worker: str) -> list[int]:
    """Processes of the elastic script under a worker's name, wherever they were started."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if ELASTIC[1] in process.cmdline() and process.environ().get("PENSTOCK_WORKER") == worker:
                found.append(process.pid)
    return found


def test_what_slurm_refuses_ends_a_run_with_its_words(backend: SlurmBackend, cluster: SlurmCluster) -> None:
    odd = SlurmBackend(
        backend.state_dir, SlurmSettings(partition=PARTITION, reservation="none", owner=True, host="127.0.0.1")
    )
    odd.launch(make_launch(odd, ("true",)))
    last = wait_for_end(odd, RUN)
    assert (last.kind, last.reason) == (ReportKind.FAILED, "refused")
    assert "reservation" in last.tail[-1].lower()


def test_time_limits_accounts_and_reservations_reach_slurm(
    backend: SlurmBackend, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Without Slurm's database accounts are written down with a job and not checked."""
    kept = ["ReservationName=ours", "StartTime=now", "Duration=30", "Users=root", "Nodes=n3"]
    cluster.run("scontrol", "create", "reservation", *kept)
    settings = SlurmSettings(
        partition=PARTITION, owner=True, host="127.0.0.1", time="7", account="physics", accounts={"ann": "chemistry"},
        reservation="ours",
    )  # fmt: skip
    theirs = SlurmBackend(backend.state_dir, settings)
    try:
        theirs.launch(make_launch(theirs, ("sleep", "600"), workers=workers_on([DeviceSlot("n3", 0)]), tenant="ann"))
        wait_for(theirs, RUN, ReportKind.WORKER_STARTED)
        said = set(cluster.run("scontrol", "show", "job", job_of(cluster, "w0-1"), "--oneliner").split())
        assert {"TimeLimit=00:07:00", "Account=chemistry", "Reservation=ours", "NodeList=n3"} <= said
        until(lambda: DeviceSlot("n3", 1) in backend.unusable(), "a reservation that is not ours to be told")
    finally:
        theirs.stop(RUN, 0.0)
        wait_for_end(theirs, RUN)
        cluster.run("scontrol", "delete", "ReservationName=ours")


def test_accelerators_are_asked_for_by_their_type(
    tmp_path: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(cluster.configuration))
    monkeypatch.setattr("penstock.backends.slurm.watch.NODES_EVERY_S", 0.0)
    settings = SlurmSettings(partition=GPU_PARTITION, owner=True, host="127.0.0.1")
    backend = SlurmBackend(tmp_path / "state", settings)
    assert [(node.name, node.kind, node.device_count) for node in backend.nodes()] == [(GPU_NODE, "a100", GPUS)]
    wanted = ("--partition", GPU_PARTITION, "--gres=gpu:a100:1", "--output", "/dev/null", "--wrap", "sleep 60")
    theirs = cluster.run("sbatch", "--parsable", *wanted).strip()
    until(lambda: list(backend.unusable()) == [DeviceSlot(GPU_NODE, GPUS - 1)], "what others hold")
    cluster.run("scancel", theirs)
    until(lambda: backend.unusable() == {}, "all to be free")
    backend.launch(make_launch(backend, ("sleep", "600"), GPUS))
    wait_for(backend, RUN, ReportKind.WORKER_STARTED, count=GPUS)
    shown = cluster.run("scontrol", "show", "node", GPU_NODE, "--oneliner", "--details")
    assert f"GresUsed=gpu:a100:{GPUS}(" in shown
    backend.stop(RUN, 0.0)
    wait_for_end(backend, RUN)


def test_a_worker_without_a_device_holds_a_core_and_no_accelerator(
    tmp_path: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(cluster.configuration))
    monkeypatch.setattr("penstock.backends.slurm.watch.NODES_EVERY_S", 0.0)
    backend = SlurmBackend(tmp_path / "state", SlurmSettings(partition=GPU_PARTITION, owner=True, host="127.0.0.1"))
    alone = cpu_worker(backend, ("sleep", "600"))
    backend.launch(make_launch(backend, ("sh", "-c", "exit 0"), cpu_worker=alone))
    wait_for(backend, RUN, ReportKind.RELEASED)

    def shown() -> str:
        return cluster.run("scontrol", "show", "node", GPU_NODE, "--oneliner", "--details")

    until(lambda: "GresUsed=gpu:a100:0" in shown() and "CPUAlloc=1 " in shown(), "its accelerator to be free")
    until(lambda: backend.unusable() == {}, "all accelerators to be there for others")
    backend.launch(make_launch(backend, ("sh", "-c", "exit 0"), run_id="run-2"))
    assert wait_for_end(backend, "run-2").kind is ReportKind.FINISHED
    backend.stop(RUN, 0.0)
    wait_for_end(backend, RUN)


def test_all_who_look_share_one_question(tmp_path: Path) -> None:
    count = tmp_path / "count"
    squeue = tmp_path / "squeue"
    shown = "echo '7|RUNNING|None|n1|penstock/run/w0-1/2'\necho '8|x|y|z|other'\n"
    squeue.write_text(f"#!/bin/sh\necho x >> {count}\n{shown}")
    squeue.chmod(0o755)
    looking = [BatchQueue(tmp_path / "queue", SlurmCommands(str(tmp_path)), PARTITION) for _ in range(20)]
    answers = [queue.jobs(60.0) for queue in looking]
    assert [list(answer) for answer in answers] == [["7"]] * 20
    assert answers[0]["7"].name == BatchName(run_id="run", part="w0-1", slot=2)
    without = BatchName(run_id="run", part="cpu-1", slot=NO_DEVICE)
    assert BatchName.parse(str(without)) == without
    assert BatchName.parse("penstock/run/cpu-1/x") is None
    assert count.read_text().count("x") == 1


def test_accelerators_are_told_by_their_type_and_held_slots_are_not_ours() -> None:
    line = (
        "NodeName=g1 CPUAlloc=24 CPUTot=64 Gres=gpu:a100:4(S:0-1),nvme:1 RealMemory=512000 State=MIXED"
        " Partitions=ml,all CfgTRES=cpu=64,gres/gpu=4 AllocTRES=cpu=24,mem=9G,gres/gpu=3,gres/gpu:a100=3"
        " Reason=on watch [ann@2026-01-01T00:00:00]"
    )
    (node,) = parse_nodes(line, "ml", 1)
    assert (node.kind, node.count, node.cpus, node.memory_mb, node.allocated) == ("a100", 4, 16, 128000, 3)
    where = ["--nodelist=g1", "--nodes=1", "--ntasks=1"]
    assert node.request == [*where, "--cpus-per-task=16", "--mem=128000M", "--gres=gpu:a100:1"]
    assert node.core_request == [*where, "--cpus-per-task=1", "--mem=8000M"]
    assert node.trouble(in_reservation=False) == ""
    assert list(held_by_others([node], {"g1": {3}})) == [DeviceSlot("g1", 1), DeviceSlot("g1", 2)]
    assert parse_nodes(line, "other", 1) == ()


@pytest.mark.parametrize(
    ("state", "reserved", "usable"),
    [
        ("IDLE", False, True), ("MIXED+PLANNED", False, True), ("IDLE+DRAIN", False, False), ("DOWN*", False, False),
        ("IDLE+RESERVED", False, False), ("IDLE+RESERVED", True, True),
    ],
)  # fmt: skip
def test_states_of_nodes(state: str, reserved: bool, usable: bool) -> None:
    (node,) = parse_nodes(f"NodeName=n CPUAlloc=0 CPUTot=2 State={state} Partitions=p Reason=(null)", "p", 1)
    assert (node.trouble(reserved) == "") is usable


def test_a_node_that_is_only_silent_is_doubted_and_not_lost_at_once() -> None:
    (node,) = parse_nodes("NodeName=n CPUAlloc=0 CPUTot=2 State=ALLOCATED* Partitions=p", "p", 1)
    assert node.is_silent
    assert node.trouble(in_reservation=False) == ""


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(InputError, match="partition"):
        SlurmSettings.of({})
    with pytest.raises(UnknownNameError, match="partion"):
        SlurmSettings.of({"partition": "p", "partion": "q"})
    assert SlurmSettings(partition="p").start_limit_s is None
    assert SlurmSettings(partition="p", account="a", accounts={"ann": "b"}).account_of("ann") == "b"


def test_requirements_are_installed_where_all_nodes_see_them(backend: SlurmBackend) -> None:
    ready = backend.prepare(Recipe(command=("train",), requirements=("numpy",)), lambda _: None)
    assert ready.command[0] == sys.executable
    assert str(backend.state_dir / "environments") in ready.command
    assert ready.command[-1] == "train"


def test_setup_commands_run_once_on_a_node_before_the_first_worker(backend: SlurmBackend, tmp_path: Path) -> None:
    recipe = Recipe(
        command=(INTERPRETER, "-c", "print(open('made').read(), end='')"), working_dir=str(tmp_path),
        setup="echo set up >> made",
    )  # fmt: skip
    ready = backend.prepare(recipe, lambda _: None)
    backend.launch(make_launch(backend, ready.command, 2, working_dir=str(tmp_path)))
    assert wait_for_end(backend, RUN).kind is ReportKind.FINISHED, output(backend, RUN)
    assert output(backend, RUN, "w1").splitlines()[-1] == "set up"
    assert (tmp_path / "made").read_text() == "set up\n"


def test_an_image_becomes_a_file_that_apptainer_starts_on_the_nodes(
    backend: SlurmBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apptainer = fake_apptainer(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{apptainer.parent}:{os.environ['PATH']}")
    recipe = Recipe(command=(INTERPRETER, "-V"), container=Container(image="pytorch"), working_dir=str(tmp_path))
    ready = backend.prepare(recipe, lambda _: None)
    assert ready.container is not None
    assert ready.command == ("python", "-V")
    assert Path(ready.container.image).read_text() == "docker://pytorch"
    backend.launch(replace(make_launch(backend, ("env",), working_dir=str(tmp_path)), container=ready.container))
    assert wait_for_end(backend, RUN).kind is ReportKind.FINISHED, output(backend, RUN)
    assert f"INSIDE={ready.container.image}" in output(backend, RUN)


def test_what_cannot_be_prepared_is_refused_in_words(
    backend: SlurmBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="apptainer or singularity"):
        backend.prepare(Recipe(command=("x",), container=Container(image="pytorch")), lambda _: None)
    with pytest.raises(ClusterError):
        backend.device_environment(DeviceSlot("n9", 0))


def test_a_controllers_silence_is_no_refusal(tmp_path: Path) -> None:
    for words, passing in (("Unable to contact slurm controller (connect failure)", True), ("Invalid account", False)):
        (tmp_path / "sbatch").write_text(f"#!/bin/sh\necho 'sbatch: error: {words}' >&2\nexit 1\n")
        (tmp_path / "sbatch").chmod(0o755)
        with pytest.raises(SlurmError, match=words.split()[0]) as told:
            SlurmCommands(str(tmp_path)).run("sbatch")
        assert told.value.passing is passing
        assert isinstance(told.value, PenstockError)


def test_a_batch_script_names_the_secrets_file_and_not_the_secret() -> None:
    launch = local_launch(("true",))
    part = Part(
        name="w0-1", worker=launch.workers[0], launch=launch, agent=AgentAddress(host="10.0.0.1", port=5),
        secret="s3cr3t",
    )  # fmt: skip
    script = batch_script({**part.host_environment(), "PENSTOCK_SECRET_FILE": "/shared/it's here"})
    assert "s3cr3t" not in script + repr(part)
    assert "export PENSTOCK_SECRET_FILE='/shared/it'\"'\"'s here'" in script
    assert script.splitlines()[-1].startswith("exec ")
