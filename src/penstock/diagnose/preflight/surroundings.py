"""What training needs of a machine besides its devices: versions, limits, shared memory, interfaces, ports, a clock."""

import ctypes
import importlib.metadata
import os
import platform
import resource
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from penstock.core import format_bytes
from penstock.diagnose.preflight.report import Check, Status

_PACKAGES = ("penstock", "torch", "numpy", "triton")
_LEAST_SHM = 1 << 30
_LEAST_MEMLOCK = 64 << 20
_LEAST_FILES = 4096
_UNSYNCHRONISED = 5
_LARGEST_CLOCK_ERROR_S = 0.5


def facts() -> dict[str, str]:
    """What must be the same on all nodes of a job: nearly half of the faults of distributed training are fixed by
    versions and configuration (Liu et al., TOSEM 2023)."""
    found = {"python": platform.python_version(), "machine": platform.machine(), "kernel": platform.release()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found | _torch_facts()


def _torch_facts() -> dict[str, str]:
    if "torch" not in sys.modules:
        return {}
    import torch

    found: dict[str, str] = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    if torch.cuda.is_available():
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
        found["cudnn"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
        found["gpu"] = torch.cuda.get_device_name()
    return found


def surroundings(ports: tuple[int, ...] = (29500,)) -> Iterator[Check]:
    yield _shared_memory(Path("/dev/shm"))
    yield _memlock()
    yield _open_files()
    yield _interfaces()
    yield _own_name()
    yield from map(_port, ports)
    yield _clock()


def _shared_memory(place: Path) -> Check:
    name, wanted = "/dev/shm", f"at least {format_bytes(_LEAST_SHM)} free"
    if not place.is_dir():
        return Check(name=name, status=Status.FAIL, figure="not there", expected=wanted, next="Mount a tmpfs on it")
    free = shutil.disk_usage(place).free
    status = Status.PASS if free >= _LEAST_SHM else Status.FAIL if free < _LEAST_SHM // 16 else Status.WARN
    advice = "Free or raise it (docker: --shm-size): data loaders, NCCL and checkpoints use it"
    return Check(name=name, status=status, figure=f"{format_bytes(free)} free", expected=wanted,
                 next="" if status is Status.PASS else advice)  # fmt: skip


def _memlock() -> Check:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    wanted = f"unlimited, or at least {format_bytes(_LEAST_MEMLOCK)}"
    enough = soft == resource.RLIM_INFINITY or soft >= _LEAST_MEMLOCK
    matters = any(Path("/sys/class/infiniband").glob("*"))
    status = Status.PASS if enough else Status.FAIL if matters else Status.WARN
    figure = "unlimited" if soft == resource.RLIM_INFINITY else format_bytes(soft)
    advice = "Raise it (ulimit -l unlimited, LimitMEMLOCK=infinity): InfiniBand registers memory"
    return Check(name="memlock", status=status, figure=figure, expected=wanted,
                 next="" if enough else advice)  # fmt: skip


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = soft == resource.RLIM_INFINITY or soft >= _LEAST_FILES
    raisable = hard == resource.RLIM_INFINITY or hard >= _LEAST_FILES
    status = Status.PASS if enough else Status.WARN if raisable else Status.FAIL
    return Check(name="open files", status=status, figure=str(soft), expected=f"at least {_LEAST_FILES}",
                 next="" if enough else "Raise it (ulimit -n): every rank holds sockets to others")  # fmt: skip


def _interfaces() -> Check:
    up = [name for _, name in socket.if_nameindex() if name != "lo" and _is_up(name)]
    if up:
        return Check(name="interfaces", status=Status.PASS, figure=", ".join(up), expected="one that is up")
    return Check(name="interfaces", status=Status.WARN, figure="loopback only", expected="one that is up",
                 next="Other nodes cannot be reached from here")  # fmt: skip


def _is_up(name: str) -> bool:
    try:
        return Path(f"/sys/class/net/{name}/operstate").read_text(encoding="ascii").strip() in ("up", "unknown")
    except OSError:
        return True


def _own_name() -> Check:
    host = socket.gethostname()
    try:
        address = socket.getaddrinfo(host, None)[0][4][0]
    except OSError as problem:
        return Check(name="own name", status=Status.FAIL, figure=f"{host} does not resolve: {problem}",
                     expected="an address", next="Add it to /etc/hosts: process groups meet under it")  # fmt: skip
    return Check(name="own name", status=Status.PASS, figure=f"{host} is {address}", expected="an address")


def _port(number: int) -> Check:
    name = f"port {number}"
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", number))
            probe.listen()
        except OSError as problem:
            return Check(name=name, status=Status.WARN, figure=f"cannot be listened on: {problem.strerror}",
                         expected="free", next="Stop what listens there, or set another MASTER_PORT")  # fmt: skip
    return Check(name=name, status=Status.PASS, figure="free", expected="free")


class _Timex(ctypes.Structure):
    """The beginning of the kernel's struct timex; the rest is room."""

    _fields_ = (
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("rest", ctypes.c_char * 256),
    )  # fmt: skip


def _clock() -> Check:
    """What the kernel knows about its own error; between nodes, reports are compared."""
    wanted = f"synchronised within {_LARGEST_CLOCK_ERROR_S:g} s"
    seen = _Timex()
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.byref(seen))
    except (OSError, AttributeError):
        state = -1
    if state < 0:
        return Check(name="clock", status=Status.SKIP, figure="the kernel does not tell", expected=wanted)
    if state == _UNSYNCHRONISED:
        return Check(name="clock", status=Status.WARN, figure="not synchronised", expected=wanted,
                     next="Run chrony or ntpd: logs of several nodes are read together")  # fmt: skip
    error_s = seen.maxerror / 1e6
    status = Status.PASS if error_s <= _LARGEST_CLOCK_ERROR_S else Status.WARN
    return Check(name="clock", status=status, figure=f"off by {error_s:.3f} s at most", expected=wanted)


def node_name() -> str:
    """As the platform calls this node, else as it calls itself."""
    return os.environ.get("PENSTOCK_NODE") or socket.gethostname()


def wall_clock() -> float:
    return time.time()
