"""What must hold on a real GPU. Plain functions, so that a machine with nothing but Python and PyTorch can run them.

Each check gets a folder of its own and a warm zygote, and fails by an exception.
"""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import torch

from penstock.backends import BackendError, Inventory, LocalBackend, LocalDevice
from penstock.backends.agent.watch.stragglers import IN_A_ROW, StragglerWatch, Straggling
from penstock.core import CheckpointSaved, Launch, ReportKind, StateSuspended, StepTimes, SuspendOrder, Worker
from penstock.diagnose import NodeCheck, check_operators
from penstock.runtime.checkpoints.checkpoint import Checkpoints, Saved
from penstock.runtime.checkpoints.device_stage import DeviceStage
from penstock.runtime.checkpoints.state import Parts
from penstock.runtime.watch.hotspot_table import INPUT
from penstock.runtime.watch.profile_sampler import ProfileSampler, marked
from penstock.runtime.watch.step_clock import StepClock
from penstock.tools import Nvml
from tests.diagnose.networks import everything_step
from tests.runtime.agent import Agent, Zygote

SCRIPT = Path(__file__).parents[1] / "runtime" / "scripts" / "train.py"
STEPS = 60
_ROUNDING = 2e-3
"""Relative difference of losses that sums in another order may make in single precision."""


def one_worker_in_bfloat16(zygote: Zygote, folder: Path) -> None:
    with closing(agent(zygote, folder, "--bf16")) as run:
        run.start("w0")
        finished(run, "w0")
        losses = curve(run)
        assert all(math.isfinite(loss) for loss in losses.values())
        assert losses[STEPS - 1] < losses[0]
        assert run.records("end")[0]["device"] == "cuda:0"


def two_workers_share_one_gpu(zygote: Zygote, folder: Path) -> None:
    expected = undisturbed(zygote, folder)
    with closing(agent(zygote, folder / "shared")) as run:
        run.start("w0", "w1")
        finished(run, "w0", "w1")
        assert [one["device"] for one in run.records("end")] == ["cuda:0", "cuda:0"]
        assert_close(curve(run), expected)


def resizes_in_place(zygote: Zygote, folder: Path) -> None:
    expected = undisturbed(zygote, folder)
    with closing(agent(zygote, folder / "resized", "--sleep", "0.05")) as run:
        run.start("w0")
        run.wait_step(3)
        run.resize("w0", "w1")
        pauses = [run.wait_joined().pause_s]
        run.resize("w1")
        pauses.append(run.wait_joined().pause_s)
        finished(run, "w0", "w1")
        assert {one["size"] for one in run.records("step")} == {1, 2}
        assert_close(curve(run), expected)
        print(f"    pauses of 1 -> 2 -> 1: {pauses[0]:.3f} s, {pauses[1]:.3f} s")


def a_death_is_survived(zygote: Zygote, folder: Path) -> None:
    expected = undisturbed(zygote, folder)
    with closing(agent(zygote, folder / "dies", "--die", "w1:20:backward")) as run:
        run.start("w0", "w1")
        assert run.wait_exits("w1")[0]["signal"] == 9
        run.bury("w1")
        finished(run, "w0")
        assert_close(curve(run), expected)


def suspended_and_resumed_at_another_width(zygote: Zygote, folder: Path) -> None:
    expected = undisturbed(zygote, folder)
    with closing(agent(zygote, folder / "saved", "--save-steps", "5", "--sleep", "0.05")) as run:
        run.start("w0")
        run.wait_step(8)
        run.send("w0", SuspendOrder())
        finished(run, "w0")
        step = run.heard(StateSuspended)[0].step
        assert step < STEPS
        run.start("w0", "w1")
        finished(run, "w0", "w1")
        assert min(one["step"] for one in run.records("step") if one["size"] == 2) == step
        assert_close(curve(run), expected)
        blocking = [one.blocking_s for one in run.heard(CheckpointSaved)]
        print(f"    {len(blocking)} checkpoints, training stood still for {max(blocking) * 1e3:.1f} ms at most")


def a_snapshot_is_not_disturbed_by_training(_zygote: Zygote, folder: Path) -> None:
    """Copies leave the device on a stream of their own while the next step is under way; its optimizer must wait.

    By way of the device's own memory at first, and then as if there were no room there.
    """
    device = torch.device("cuda")
    model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(4)), torch.nn.BatchNorm1d(4096)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    parts = Parts(device)
    parts.add("model", model)
    parts.add("optimizer", optimizer)
    files = Checkpoints(folder)
    parts.before_update = files.hold
    batch = torch.randn(64, 4096, device=device)

    def train() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for number in range(1, 6):
        if number == 4:
            files._arena._stage = DeviceStage(lambda _: 0)
        train()
        before = {key: tensor.clone() for key, tensor in parts.capture(number).tensors.items()}
        torch.cuda.synchronize()
        started = time.perf_counter()
        files.begin(parts.capture(number))
        began = time.perf_counter() - started
        train()
        train()
        saved = files.settle()
        assert isinstance(saved, Saved), saved
        manifest = files.newest()
        assert manifest is not None
        assert manifest.step == number
        files.load(manifest, parts)
        after = parts.capture(number).tensors
        wrong = [key for key, tensor in before.items() if not torch.equal(after[key], tensor)]
        assert not wrong, wrong
        size = sum(tensor.nbytes for tensor in before.values()) / 1e6
        print(f"    {size:.0f} MB: begun in {began * 1e3:.1f} ms, held up {saved.blocking_s * 1e3:.1f} ms in all")


def a_sharded_model_on_one_gpu(zygote: Zygote, folder: Path) -> None:
    expected = undisturbed(zygote, folder)
    with closing(agent(zygote, folder / "sharded", "--strategy", "fsdp2")) as run:
        run.start("w0")
        finished(run, "w0")
        assert_close(curve(run), expected)


def a_job_of_the_local_backend(_zygote: Zygote, folder: Path) -> None:
    """The whole way: a server's launch, an agent, its zygote, a worker on the GPU, and what it uses."""
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    gpu = LocalDevice(kind="gpu", id=uuid, env=(("CUDA_VISIBLE_DEVICES", uuid),))
    backend = LocalBackend(folder / "state", Inventory((gpu,), "here"))
    command = (sys.executable, str(SCRIPT), "--steps", "300", "--sleep", "0.02")
    worker = Worker(id="w0", rank=0, node="here", slot=0)
    backend.launch(Launch(run_id="r", job_id="j", command=command, workers=(worker,), working_dir=str(folder)))
    seen = []
    while backend.runs()[0].alive:
        with suppress(BackendError):
            seen.append(backend.usage("r"))
        time.sleep(0.5)
    last = backend.reports("r", 0)[-1]
    assert last.kind is ReportKind.FINISHED, last
    used = backend.usage("r")
    assert used.cpu_s > 1.0
    if Nvml.load() is not None:
        assert not used.estimated
        assert used.energy_j is not None
        assert used.energy_j > 0
        power = max(one.power_w or 0.0 for one in seen)
        assert power > 0
        print(f"    {used.cpu_s:.1f} CPU s, {used.energy_j:.0f} J, up to {power:.0f} W")


def steps_are_profiled_and_timed(zygote: Zygote, folder: Path) -> None:
    """The kernels of a step are found on the device, and the parts of its time add up."""
    device = torch.device("cuda", 0)
    model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).to(device)
    data = torch.randn(4096, 4096)
    clock, sampler = StepClock(device), ProfileSampler(device, budget=1e9, first_cost_s=0.0)
    clock.watch(model)
    tables = []
    for number in range(12):
        sampler.before_step()
        clock.begin(256)
        with clock.fetching(), marked(INPUT):
            batch = data.to(device)
        model(batch).pow(2).mean().backward()
        torch.cuda.synchronize()
        clock.exchanged(2)
        for parameter in model.parameters():
            parameter.grad = None
        tables += [found] if (found := sampler.after_step(number, checkpoint_s=0.0)) is not None else []
    sampler.close()
    table = tables[-1]
    print(table)
    parts = (table.input_s, table.host_s, table.kernels_s, table.communication_s, table.checkpoint_s)
    assert math.isclose(sum(parts), table.step_s, rel_tol=1e-6)
    assert table.device == torch.cuda.get_device_name(device)
    assert table.kernels_s > 0.3 * table.step_s, "a step of large matrices is mostly kernels"
    assert table.kernels_s + table.input_s + table.host_s <= table.step_s * 1.001
    assert any("gemm" in one.name.lower() or "nvjet" in one.name.lower() for one in table.operators), table.operators
    waits = [wait for _, _, wait, _ in clock._steps]
    assert all(0.0 <= wait < 0.1 for wait in waits), waits


def the_slow_shard_is_named(_zygote: Zygote, folder: Path) -> None:
    """FSDP2 with collectives on the device: nobody is named while all are alike, then the one that computes more."""
    size = 3
    environment = os.environ | {"TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1"}
    outputs = [(folder / f"{rank}.out").open("w+") for rank in range(size)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.slow_shard", str(rank), str(size), str(folder)],
            stdout=outputs[rank], env=environment,
        )
        for rank in range(size)
    ]  # fmt: skip
    watch, taken, news = StragglerWatch(), [0] * size, list[Straggling]()

    def look(until: Callable[[], bool]) -> None:
        while not until():
            assert all(process.poll() is None for process in processes), "a process has ended"
            time.sleep(0.1)
            for rank in range(size):
                told = (folder / f"{rank}.out").read_text().splitlines()
                for line in told[taken[rank] :]:
                    news.extend(watch.take(f"w{rank}", StepTimes(**json.loads(line)), size))
                taken[rank] = len(told)

    try:
        look(lambda: min(taken) > 2 * IN_A_ROW)
        print(f"    alike: {[file.read_text().splitlines()[-1] for file in sorted(folder.glob('*.out'))]}")
        assert not news, news
        (folder / "slow").touch()
        look(lambda: bool(news))
        print(f"    slow: {[file.read_text().splitlines()[-1] for file in sorted(folder.glob('*.out'))]}")
        print(f"    {news}")
        assert [(one.worker, one.cause) for one in news] == [(f"w{size - 1}", "compute")], news
        (folder / "stop").touch()
        assert [process.wait(timeout=60) for process in processes] == [0] * size
    finally:
        for process in processes:
            process.kill()
        for output in outputs:
            output.close()


def the_node_is_fit(_zygote: Zygote, folder: Path) -> None:
    """Speeds against the data sheet, operators in every dtype and layout, updates in every way."""
    report = NodeCheck(device="cuda", folder=folder).run(lambda words: print(f"    {words}", flush=True))
    for check in report.checks:
        print(f"    {check.status:<5} {check.line}")
    print(f"    {report.seconds:.1f} s, facts {report.facts}")
    assert not [check.line for check in report.failures if "operator" in check.name or "update" in check.name]


def operators_of_a_model_are_right(_zygote: Zygote, _folder: Path) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        started = time.perf_counter()
        step = everything_step(torch.optim.AdamW, dtype=dtype, device="cuda")
        step.plain()
        plain = time.perf_counter() - started
        report = check_operators(step)
        seconds = time.perf_counter() - started - plain
        told = report.to_data()
        print(f"    {dtype}: {told['calls']} calls, {told['judged_by']}, {plain:.1f} s plain, {seconds:.1f} s checked")
        print(f"    not judged: {told['unjudged']}")
        assert report.ok, told["defects"]


CHECKS: tuple[Callable[[Zygote, Path], None], ...] = (
    one_worker_in_bfloat16,
    two_workers_share_one_gpu,
    resizes_in_place,
    a_death_is_survived,
    suspended_and_resumed_at_another_width,
    a_snapshot_is_not_disturbed_by_training,
    a_sharded_model_on_one_gpu,
    a_job_of_the_local_backend,
    steps_are_profiled_and_timed,
    the_slow_shard_is_named,
    the_node_is_fit,
    operators_of_a_model_are_right,
)


def agent(zygote: Zygote, folder: Path, *arguments: str) -> Agent:
    folder.mkdir(parents=True, exist_ok=True)
    return Agent(zygote, folder, SCRIPT, "--steps", str(STEPS), *arguments)


def undisturbed(zygote: Zygote, folder: Path) -> dict[int, float]:
    """Losses of one worker that nobody disturbs."""
    with closing(agent(zygote, folder / "undisturbed")) as run:
        run.start("w0")
        finished(run, "w0")
        return curve(run)


def finished(run: Agent, *workers: str) -> None:
    assert {one["code"] for one in run.wait_exits(*workers)} == {0}, run.errors()


def curve(run: Agent) -> dict[int, float]:
    return {one["step"]: one["loss"] for one in run.records("step")}


def assert_close(found: dict[int, float], expected: dict[int, float]) -> None:
    assert found.keys() == expected.keys()
    far = [step for step, loss in expected.items() if abs(found[step] - loss) > _ROUNDING * abs(loss) + 1e-6]
    assert not far, f"losses differ at steps {far[:5]}: {[(found[step], expected[step]) for step in far[:5]]}"
