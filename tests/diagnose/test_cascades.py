"""One fault fails on every rank: the root is named, and not what the others noticed."""

import pytest

from penstock.core import Diagnosis, Remedy
from penstock.diagnose import Doctor, RunFacts, WorkerEnd, text_source

DOCTOR = Doctor.shipped()
TIMEOUT = (
    "[rank{r}]:[E ProcessGroupNCCL.cpp:563] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={s}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds "
    "before timing out."
)
PEER = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:2804{r}"
)
SIGTERM = (
    "W1120 12:00:00 torch/distributed/elastic/multiprocessing/api.py:858] Sending process 4{r} closing signal SIGTERM"
)


def diagnosis(*logs: str, facts: RunFacts | None = None) -> Diagnosis:
    return DOCTOR.diagnose([text_source(log, f"rank{rank}.log", rank) for rank, log in enumerate(logs)], facts)


@pytest.mark.parametrize(
    ("root", "category"),
    [
        ("NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.", "hw.gpu_lost"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "mem.gpu_oom"),
        ("OSError: [Errno 28] No space left on device: '/ckpt/step-100'", "storage.full"),
        ("AssertionError: Rank 1: found NaN in local grad norm in backward pass. Device: 1", "numeric.nan"),
        ("kernel: Out of memory: Killed process 77 (python) total-vm:1kB", "mem.host_oom"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "mem.host_oom"),
        (
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
            "ckpt.corrupt",
        ),
    ],
)
def test_whatever_the_others_notice_the_root_is_named(root: str, category: str) -> None:
    noticed = f"{TIMEOUT.format(r=0, s=96)}\n{PEER.format(r=1)}\n{SIGTERM.format(r=2)}"
    found = diagnosis(noticed, root, f"{PEER.format(r=3)}\nRuntimeError: Broken pipe")
    assert (found.category, found.culprit.rank) == (category, 1)
    assert found.evidence[0].text in root


def test_a_script_error_explains_lost_peers_and_is_not_guessed_a_category() -> None:
    traceback = (
        'Traceback (most recent call last):\n  File "/home/me/train.py", line 12, in <module>\n    main()\n'
        "  File \"/usr/lib/python3/site-packages/torch/nn/module.py\", line 1, in forward\n    x\nKeyError: 'tokens'\n"
    )
    noticed = "[c10d] The client socket has timed out after 60s while trying to connect to (n0, 29500)."
    found = diagnosis(PEER.format(r=1), traceback, noticed)
    assert (found.category, found.action, found.culprit.rank) == ("unknown", Remedy.FIX_CODE, 1)
    assert "KeyError: 'tokens'" in found.cause
    assert "/home/me/train.py:12" in found.cause
    assert found.would_recur


def test_an_error_that_need_not_be_the_scripts_own_gives_way_to_what_peers_noticed() -> None:
    traceback = (
        'Traceback (most recent call last):\n  File "/home/me/train.py", line 12, in <module>\n    main()\n'
        "{error}: the step could not be finished\n"
    )
    assert diagnosis(PEER.format(r=1), traceback.format(error="RuntimeError")).category == "comm.peer_died"
    assert diagnosis(PEER.format(r=1), traceback.format(error="TypeError")).category == "unknown"
    assert diagnosis(traceback.format(error="RuntimeError")).category == "unknown"


def test_the_code_that_failed_names_what_a_bare_error_does_not() -> None:
    traceback = (
        'Traceback (most recent call last):\n  File "train.py", line 150, in <module>\n    train_model(args)\n'
        '  File "train.py", line 70, in train_model\n    assert {code}\nAssertionError\n'
    )
    assert diagnosis(traceback.format(code="args.batch_size % len(devices) == 0")).category == "cfg.launcher"
    assert diagnosis(traceback.format(code="args.batch_size > 0")).category == "unknown"


@pytest.mark.parametrize(
    "after",
    [
        "pdsh@vnode1: trainer-2: ssh exited with exit code 1",
        "[proxy:0:0@n1] HYD_pmcd_pmip_control_cmd_cb (proxy/pmip_cb.c:490): assert (!closed) failed",
        "[n1:12345] PMIX ERROR: UNREACHABLE in file server/pmix_server.c at line 1741",
        "subprocess.CalledProcessError: Command 'mpirun -np 4 python train.py' returned non-zero exit status 1.",
    ],
)
def test_a_launcher_that_notices_the_end_of_a_process_did_not_bring_it_about(after: str) -> None:
    unreachable = (
        "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of "
        "(192.168.121.122, 1040)."
    )
    assert diagnosis(f"{unreachable}\n{after}").category == "rdzv.connect"
    assert diagnosis(f"Segmentation fault (core dumped)\n{after}").category == "proc.segv"


@pytest.mark.parametrize(
    ("offered", "category"),
    [
        ("UNAVAILABLE: Task /job:jax_worker/replica:0/task:0 heartbeat timeout. This indicates that the remote task "
         "has failed, got preempted, or crashed unexpectedly.", "comm.peer_died"),
        ("[0] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable", "comm.generic"),
        ("to mpirun due to a lack of common network interfaces and/or no\nroute found between them.", "launch.ssh_mpi"),
        ("The job was preempted by a job of a higher priority", "proc.sigterm"),
    ],
)  # fmt: skip
def test_causes_that_a_message_offers_to_choose_from_are_not_found_in_it(offered: str, category: str) -> None:
    assert diagnosis(offered).category == category


def test_what_is_beside_the_words_that_a_signature_covers_still_counts() -> None:
    both = "CUDA out of memory. Tried to allocate 2 GiB; remote task has failed, got preempted, or crashed unexpectedly"
    assert diagnosis(both).category == "mem.gpu_oom"


def test_interleaved_tracebacks_are_read_rank_by_rank() -> None:
    log = (
        "[rank0]: Traceback (most recent call last):\n[rank1]: Traceback (most recent call last):\n"
        '[rank0]:   File "a.py", line 1, in <module>\n[rank1]:   File "b.py", line 2, in <module>\n'
        "[rank1]: ValueError: of rank 1\n[rank0]: TypeError: of rank 0\n"
    )
    found = DOCTOR.diagnose([text_source(log)])
    assert "TypeError: of rank 0 at a.py:1" in found.cause


def test_of_ranks_that_timed_out_the_one_that_came_least_far_is_the_culprit() -> None:
    found = diagnosis(*(TIMEOUT.format(r=rank, s=90 if rank == 2 else 96) for rank in range(4)))
    assert (found.category, found.culprit.rank) == ("comm.timeout", 2)
    assert found.action is Remedy.FIND_LAGGING_RANK
    assert found.confidence < 0.8


@pytest.mark.parametrize(
    ("log", "category"),
    [
        ("NCCL WARN Call to posix_fallocate failed : No space left on device", "mem.shm"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/pym-1'", "mem.shm"),
        ("OSError: [Errno 28] No space left on device: '/data/out.pt'", "storage.full"),
        ("Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was "
         "encountered", "gpu.illegal_access"),
        ("NVRM: Xid (PCI:0019:01:00): 149, NETIR Fatal XC0 i0 Link -1", "hw.nvlink"),
        ("ncclSystemError: System call (e.g. socket, malloc) failed\nn1:1:2 [0] NCCL WARN Call to ibv_reg_mr_iova2 "
         "failed with error Cannot allocate memory", "limits.memlock"),
        ("(world_size=2, worker_count=4, timeout=0:30:00) store_based_barrier_key:1", "rdzv.stale"),
        ("(world_size=4, worker_count=2, timeout=0:30:00) store_based_barrier_key:1", "rdzv.timeout"),
        ("训练失败：RuntimeError: CUDA out of memory. 显存不足", "mem.gpu_oom"),
        ("n1:1:2 [0] NCCL INFO Could not enable P2P between dev 0(=1a000) and dev 1(=1b000)", "unknown"),
        ("Installed CUDA version 11.8 does not match the version torch was compiled with 11.7 but since the APIs are "
         "compatible, accepting this combination", "unknown"),
    ],
)  # fmt: skip
def test_traps(log: str, category: str) -> None:
    assert diagnosis(log).category == category


def test_a_nonfatal_xid_is_a_warning_and_cordons_nobody() -> None:
    found = diagnosis("NVRM: Xid (PCI:0019:01:00): 149, NETIR Nonfatal XC0 i0 Link 05")
    assert found.confidence < 0.8


def test_a_kill_is_only_probably_memory_and_certain_with_the_kernel_or_the_limit() -> None:
    killed = RunFacts(ends=(WorkerEnd(rank=0, node="n1", signal=9),))
    probably = diagnosis("step 1", facts=killed)
    assert (probably.category, probably.culprit.node) == ("mem.host_oom", "n1")
    assert probably.confidence < 0.8
    full = RunFacts(ends=killed.ends, memory_peak_bytes=2_000_000_000, memory_limit_bytes=2_000_000_000)
    assert diagnosis("step 1", facts=full).confidence > 0.8
    assert diagnosis("step 1", "Out of memory: Killed process 9 (python)", facts=killed).confidence > 0.8


@pytest.mark.parametrize(
    ("code", "category"),
    [
        (-11, "proc.segv"), (139, "proc.segv"), (-15, "proc.sigterm"), (143, "proc.sigterm"), (-7, "mem.shm"),
        (137, "mem.host_oom"), (1, "unknown"), (0, "unknown"),
    ],
)  # fmt: skip
def test_exit_codes_speak_where_logs_do_not(code: int, category: str) -> None:
    assert diagnosis("step 1", facts=RunFacts(ends=(WorkerEnd(rank=0, code=code),))).category == category


def test_what_nothing_explains_is_not_guessed() -> None:
    found = diagnosis("starting\nstep 1 loss 2.3\nstep 2 loss 2.1")
    assert (found.category, found.confidence) == ("unknown", 0.0)
    assert found.evidence[0].text == "step 2 loss 2.1"
    assert diagnosis("").category == "unknown"


def test_a_launcher_that_passes_a_failure_on_is_no_cause() -> None:
    log = (
        'Traceback (most recent call last):\n  File "/usr/bin/torchrun", line 8, in <module>\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    )
    found = diagnosis(log)
    assert (found.category, found.action) == ("unknown", Remedy.FIND_FIRST_ERROR)


_INPUT = 'Traceback (most recent call last):\n  File "/x/a.py", line 1, in <module>\n    input()\n'


@pytest.mark.parametrize(
    ("log", "code", "cause"),
    [
        (f"{_INPUT}EOFError: EOF when reading a line", 1, "the script failed with EOFError: EOF when reading a line"),
        (
            "a.py: error: the following arguments are required: --lr",
            2,
            "the script does not accept its arguments",
        ),
        ("step 50 0.493", 9, "the script ended by itself with code 9, and nothing that was read says why"),
        ("", 9, "the script ended by itself with code 9, and nothing that was read says why"),
    ],
)
def test_simple_ends_have_simple_words(log: str, code: int, cause: str) -> None:
    found = diagnosis(log, facts=RunFacts(ends=(WorkerEnd(rank=0, code=code),)))
    assert found.cause.startswith(cause)
    assert "NCCL" not in found.fix
