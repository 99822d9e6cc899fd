"""Processes that are really broken, in as many ways as a machine allows, and what the doctor makes of their output."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.core import Diagnosis, Remedy
from penstock.diagnose import Doctor, RunFacts, WorkerEnd, kernel_lines, text_source
from tests.tools import needs

DOCTOR = Doctor.shipped()
_PATIENCE_S = 300


def broken(code: str, *arguments: str) -> Diagnosis:
    """Run a script that fails, and diagnose what it said and how it ended."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return diagnosed(subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False))


def diagnosed(ended: subprocess.CompletedProcess[bytes]) -> Diagnosis:
    assert ended.returncode != 0
    facts = RunFacts(ends=(WorkerEnd(rank=0, node="here", code=ended.returncode),))
    return DOCTOR.diagnose([text_source(ended.stdout + ended.stderr, "log", 0)], facts)


_LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_{}, ({}, {}))\n"
KINDS = {
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "mem.host_oom"),
    "crashed": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "proc.segv"),
    "null pointer": ("import faulthandler, ctypes; faulthandler.enable(); ctypes.string_at(0)", "proc.segv"),
    "aborted": ("import os; os.abort()", "proc.segv"),
    "asked to end": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "proc.sigterm"),
    "shared memory fault": ("import os, signal; os.kill(os.getpid(), signal.SIGBUS)", "mem.shm"),
    "no memory": (_LIMITED.format("AS", 1 << 29, 1 << 29) + "bytearray(1 << 31)", "mem.host_oom"),
    "too many files": (
        _LIMITED.format("NOFILE", 16, 16) + "kept = [open('/dev/null') for _ in range(40)]", "limits.fd"
    ),
    "too many threads": (
        _LIMITED.format("AS", 1 << 30, 1 << 30)
        + "import threading; threading.stack_size(1 << 29)\n"
        + "for _ in range(9): threading.Thread(target=threading.Event().wait, daemon=True).start()", "limits.fd",
    ),
    "disk full": ("import os; os.write(os.open('/dev/full', os.O_WRONLY), b'x')", "storage.full"),
    "port taken": (
        "import socket; a = socket.create_server(('127.0.0.1', 0)); socket.create_server(a.getsockname())", "rdzv.port"
    ),
    "nobody listens": (
        "import socket; a = socket.socket(); a.bind(('127.0.0.1', 0)); socket.create_connection(a.getsockname())",
        "net.tcp",
    ),
    "unknown host": ("import socket; socket.create_connection(('no-such-host.invalid', 1))", "rdzv.connect"),
    "missing module": ("import no_such_module_anywhere", "build.deps"),
    "missing library": ("import ctypes; ctypes.CDLL('libnosuch.so.7')", "build.deps"),
    "no launcher": ("import os; rank = int(os.environ['LOCAL_RANK'])", "cfg.launcher"),
    "old argument": (
        "import argparse; argparse.ArgumentParser().parse_args(['--local-rank=0'])", "cfg.launcher"
    ),
    "cut pickle": ("import pickle; pickle.loads(pickle.dumps(list(range(99)))[:-20])", "ckpt.corrupt"),
    "no zip": ("import io, zipfile; zipfile.ZipFile(io.BytesIO(b'x' * 99))", "ckpt.corrupt"),
    "lambda to a process": (
        "import multiprocessing as m; m.get_context('spawn').Process(target=lambda: 0).start()", "code.mp_start"
    ),
    "child of a daemon": (
        "import multiprocessing as m, sys\n"
        "def child(): m.get_context('fork').Process(target=print).start()\n"
        "p = m.get_context('fork').Process(target=child, daemon=True); p.start(); p.join(); sys.exit(1)",
        "code.mp_start",
    ),
    "method set twice": ("import multiprocessing as m; m.set_start_method('spawn'); m.set_start_method('fork')",
                         "code.mp_start"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_named(kind: str) -> None:
    code, category = KINDS[kind]
    found = broken(code)
    assert found.category == category, (found.cause, [str(one) for one in found.evidence])
    assert found.evidence


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("open('/no/such/file')", "FileNotFoundError"),
        ("{}['x']", "KeyError: 'x'"),
        ("len(3)", "TypeError"),
        ("assert 1 == 2, 'batch'", "AssertionError: batch"),
        ("1 / 0", "ZeroDivisionError"),
        ("import json; json.loads('{')", "JSONDecodeError"),
        ("None.shape", "AttributeError"),
    ],
)
def test_an_ordinary_error_of_a_script_is_quoted_and_has_no_category(code: str, said: str) -> None:
    found = broken(code)
    assert (found.category, found.action) == ("unknown", Remedy.FIX_CODE)
    assert said in found.cause
    assert found.would_recur


def test_a_shell_tells_of_a_killed_child() -> None:
    ended = subprocess.run(
        ["bash", "-c", 'bash -c "kill -9 \\$\\$"; exit 3'], capture_output=True, timeout=_PATIENCE_S, check=False
    )
    assert diagnosed(ended).category == "mem.host_oom"


@pytest.mark.skipif(
    shutil.which("mpirun") is not None, reason=needs.reason("mpirun is installed", "make test on a machine without it")
)
def test_a_launcher_that_is_not_installed() -> None:
    ended = subprocess.run(["bash", "-c", "mpirun -np 2 true"], capture_output=True, timeout=_PATIENCE_S, check=False)
    assert diagnosed(ended).category == "launch.ssh_mpi"


def test_a_library_of_another_version(tmp_path: Path) -> None:
    compiler = needs.engine("cc")
    (tmp_path / "ext.c").write_text(
        "int only_in_the_next_version(void); int f(void) { return only_in_the_next_version(); }"
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "ext.so", "ext.c"], cwd=tmp_path, check=True)
    found = broken("import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)", str(tmp_path / "ext.so"))
    assert found.category == "build.abi"


_SHARED = """
from multiprocessing.shared_memory import SharedMemory
shared = SharedMemory(create=True, size=1 << 24)
for at in range(0, shared.size, 4096):
    shared.buf[at] = 1
"""
_LOADED = """
import torch
from torch.utils.data import DataLoader, TensorDataset
for batch in DataLoader(TensorDataset(torch.ones(8, 1 << 20)), batch_size=4, num_workers=1):
    pass
"""


@pytest.mark.parametrize("code", [_SHARED, _LOADED], ids=["memory of one process", "batches of a loader"])
def test_really_full_shared_memory(code: str) -> None:
    """A /dev/shm of one megabyte, in a mount namespace of its own so that nobody else has it."""
    if code is _LOADED:
        pytest.importorskip("torch")
    small = "mount -t tmpfs -o size=1m small /dev/shm"
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "sh", "-c", small], check=False).returncode:
        needs.skip("no file system may be mounted here", f"{needs.ROOT}, with the capability to mount")
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{small} && exec "$0" -c "$1"', sys.executable, textwrap.dedent(code)],
        capture_output=True, timeout=_PATIENCE_S, check=False,
    )  # fmt: skip
    found = diagnosed(ended)
    assert found.category == "mem.shm", [str(one) for one in found.evidence]


@contextmanager
def memory_limit(limit_bytes: int) -> Iterator[Path]:
    """A memory cgroup of its own, of either version; what it is told and tells is in files below it."""
    root = Path("/sys/fs/cgroup")
    group = (root / "memory" if (root / "memory").is_dir() else root) / f"penstock-test-{os.getpid()}"
    limit = "memory.limit_in_bytes" if group.parent.name == "memory" else "memory.max"
    try:
        group.mkdir()
        (group / limit).write_text(str(limit_bytes))
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        needs.skip(f"no memory cgroup may be made here: {error}", f"{needs.ROOT}, with a writable /sys/fs/cgroup")
    try:
        yield group
    finally:
        group.rmdir()


def test_a_process_that_its_memory_limit_really_killed() -> None:
    limit_bytes = 64 << 20
    with memory_limit(limit_bytes) as group:
        began = time.time()
        code = f"open('{group}/cgroup.procs', 'w').write('0'); kept = bytearray(1 << 30)"
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=_PATIENCE_S, check=False)
        told = [group / name for name in ("memory.max_usage_in_bytes", "memory.peak")]
        peaks = [int(file.read_text()) for file in told if file.exists()]
    if ended.returncode != -signal.SIGKILL:
        needs.skip(f"the kernel did not enforce the limit (end: {ended.returncode})", "swapoff -a")
    end = WorkerEnd(rank=0, node="here", code=ended.returncode)
    kernel = text_source("\n".join(kernel_lines(began, kills=True)), "kernel")
    alone = DOCTOR.diagnose([text_source(ended.stderr, "log", 0)], RunFacts(ends=(end,)))
    limited = RunFacts(ends=(end,), memory_peak_bytes=max(peaks, default=limit_bytes), memory_limit_bytes=limit_bytes)
    sure = DOCTOR.diagnose([text_source(ended.stderr, "log", 0), kernel], limited)
    assert (alone.category, sure.category) == ("mem.host_oom", "mem.host_oom")
    assert alone.confidence < 0.8 <= sure.confidence, [str(one) for one in sure.evidence]


@pytest.fixture(scope="module")
def torch_failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What PyTorch really says about mistakes, all of them made in one process, for it is long to load."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("torch")
    script = Path(__file__).parent / "torch_mistakes.py"
    subprocess.run(
        [sys.executable, str(script), str(folder)], check=True, timeout=_PATIENCE_S, capture_output=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return {file.stem: file.read_text() for file in folder.glob("*.log")}


WITHOUT_GPU = {"no_cuda": "env.driver", "no_nccl": "cfg.device"}
"""What is wrong where PyTorch was built with CUDA and finds no GPU; its CPU build lacks the code for both."""


@pytest.mark.parametrize(
    ("mistake", "category"),
    [
        ("missing_keys", "ckpt.layout"), ("other_shape", "ckpt.layout"), ("wrapped_keys", "ckpt.layout"),
        ("optimizer_groups", "ckpt.layout"), ("unsafe_pickle", "ckpt.layout"), ("cut_checkpoint", "ckpt.corrupt"),
        ("no_cuda", "build.ext"), ("no_nccl", "build.ext"), ("nan_backward", "numeric.nan"),
        ("nan_sampling", "numeric.nan"), ("nan_norm", "numeric.nan"), ("too_much_memory", "mem.host_oom"),
        ("no_rank", "cfg.launcher"), ("no_group", "cfg.launcher"), ("port_taken", "rdzv.port"),
        ("nobody_at_the_store", "rdzv.connect"), ("missing_rank", "rdzv.timeout"),
        ("half_overflow", "numeric.overflow"), ("meta_weights", "code.device_placement"),
    ],
)  # fmt: skip
def test_mistakes_with_torch(torch_failures: dict[str, str], mistake: str, category: str) -> None:
    torch = pytest.importorskip("torch")
    if mistake in WITHOUT_GPU and torch.version.cuda is not None:
        if torch.cuda.is_available():
            needs.skip("there is a GPU", "make test on a machine without one")
        category = WITHOUT_GPU[mistake]
    found = DOCTOR.diagnose([text_source(torch_failures[mistake])])
    assert found.category == category, torch_failures[mistake][-600:]


@pytest.mark.parametrize("mistake", ["wrong_shapes", "wrong_dtype", "double_backward"])
def test_wrong_shapes_are_errors_of_the_script(torch_failures: dict[str, str], mistake: str) -> None:
    found = DOCTOR.diagnose([text_source(torch_failures[mistake])])
    assert (found.category, found.action) == ("unknown", Remedy.FIX_CODE)
    assert "torch_mistakes.py" in found.cause


def group(tmp_path: Path, case: str) -> Diagnosis:
    """Two processes of one group, of which one misbehaves; everything either said, and how each ended."""
    script = Path(__file__).parent / "torch_group.py"
    store = tmp_path / "store"
    logs = [tmp_path / f"rank-{rank}.log" for rank in range(2)]
    processes = []
    for rank, log in enumerate(logs):
        with log.open("wb") as file:
            command = [sys.executable, str(script), case, str(rank), str(store)]
            processes.append(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT))
    try:
        codes = [process.wait(_PATIENCE_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    ends = tuple(WorkerEnd(rank=rank, node=f"n{rank}", code=code) for rank, code in enumerate(codes) if code)
    return DOCTOR.diagnose(
        [text_source(log.read_bytes(), log.name, rank) for rank, log in enumerate(logs)], RunFacts(ends=ends)
    )


@pytest.mark.parametrize(
    ("case", "category", "rank"),
    [
        ("killed", "mem.host_oom", 1),
        ("script_error", "unknown", 1),
        ("other_size", "comm.mismatch", None),
        ("stuck", "comm.timeout", None),
    ],
)
def test_a_group_that_one_rank_brings_down(tmp_path: Path, case: str, category: str, rank: int | None) -> None:
    pytest.importorskip("torch")
    needs.names()
    found = group(tmp_path, case)
    assert found.category == category, [str(one) for one in found.evidence]
    if rank is not None:
        assert found.culprit.rank == rank
    if case == "script_error":
        assert "KeyError: 'weights'" in found.cause


def test_signals_are_those_of_this_machine() -> None:
    assert signal.SIGKILL == 9
