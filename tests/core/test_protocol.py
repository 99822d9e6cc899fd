"""Both ends of a worker's line read the same messages, and nothing else."""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import (
    AGENT_MESSAGES,
    LONGEST_LINE,
    WORKER_MESSAGES,
    AgentAddress,
    AgentMessage,
    Bye,
    CheckpointFailed,
    CheckpointSaved,
    Hello,
    Hotspots,
    HotspotsSampled,
    InputError,
    Joined,
    LeaveOrder,
    LossFault,
    LossWrong,
    OperatorTime,
    ProtocolError,
    Ready,
    Refusal,
    StackFrame,
    StackOrder,
    StacksTaken,
    StateRolledBack,
    StateSuspended,
    StepsTimed,
    StepTimes,
    SuspendOrder,
    ThreadStack,
    TrainingProgress,
    VersionError,
    WorkerMessage,
    World,
)

_whole = st.integers(0, 2**40)
_text = st.text(max_size=20)
_number = st.none() | st.floats(allow_nan=False)
_seconds = st.floats(0, 1e9)
_generation = st.integers(0, 2**31 - 1)
_name = st.text(min_size=1, max_size=128)
_clean = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)
_times = st.builds(
    StepTimes, step=_whole, steps=_whole, step_s=_seconds, compute_s=_seconds, input_s=_seconds, wait_s=_seconds,
    samples=st.floats(0, 1e6),
)  # fmt: skip
_operators = st.builds(OperatorTime, name=_clean, seconds=_seconds, calls=st.floats(0, 1e6))
_hotspots = st.builds(
    Hotspots, step=_whole, steps=_whole, device=_clean, step_s=_seconds, input_s=_seconds, host_s=_seconds,
    kernels_s=_seconds, communication_s=_seconds, checkpoint_s=_seconds, cost=st.floats(0, 1),
    operators=st.lists(_operators, max_size=3).map(tuple),
)  # fmt: skip
_frames = st.builds(StackFrame, file=_clean, line=st.integers(0, 10**6), function=_clean)
_stacks = st.builds(ThreadStack, name=_clean, frames=st.lists(_frames, max_size=3).map(tuple), is_main=st.booleans())
_from_workers = st.one_of(
    st.builds(Hello, worker=_name, pid=st.integers(1, 2**22), elastic=st.booleans(), secret=_text),
    st.builds(Ready, generation=_generation),
    st.builds(Joined, generation=_generation, pause_s=_seconds),
    st.builds(TrainingProgress, step=_whole, total=st.none() | _whole, loss=_number, samples_per_s=_number),
    st.builds(CheckpointSaved, step=_whole, path=_text, blocking_s=st.none() | _seconds),
    st.builds(CheckpointFailed, step=_whole, path=_text, reason=_text),
    st.builds(StateSuspended, step=st.none() | _whole),
    st.builds(StepsTimed, times=_times),
    st.builds(HotspotsSampled, hotspots=_hotspots),
    st.builds(StacksTaken, look=_generation, threads=st.lists(_stacks, max_size=3).map(tuple)),
    st.builds(LossWrong, step=_whole, fault=st.sampled_from(LossFault), reason=_clean),
    st.builds(
        StateRolledBack, step=_whole, skips=_whole, until=_whole, fault=st.sampled_from(LossFault), reason=_clean
    ),
    st.just(Bye()),
)
_worlds = st.lists(_text, min_size=1, max_size=5, unique=True).map(
    lambda names: World(
        generation=1, rank=len(names) - 1, size=len(names), members=tuple(names), rendezvous="file:/x",
        survivors=tuple(names[:1]),
    )
)  # fmt: skip
_from_agents = st.one_of(
    _worlds, st.just(LeaveOrder()), st.just(SuspendOrder()), st.builds(StackOrder, look=_generation),
    st.builds(Refusal, reason=_text),
)  # fmt: skip


@given(_from_workers)
def test_what_workers_say_is_what_agents_hear(message: WorkerMessage) -> None:
    line = WORKER_MESSAGES.encode(message)
    assert line.count(b"\n") == 1
    assert WORKER_MESSAGES.decode(line) == message


@given(_from_agents)
def test_what_agents_say_is_what_workers_hear(message: AgentMessage) -> None:
    assert AGENT_MESSAGES.decode(AGENT_MESSAGES.encode(message)) == message


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"type": "stacks", "look": 1, "threads": [{"name": "a\\u0000", "frames": []}]}\n', "at most 4000"),
        (b'{"type": "loss_wrong", "step": 1, "fault": "sad", "reason": ""}\n', "a loss_wrong that cannot be read"),
        (b'{"type": "rolled_back", "step": -1, "skips": 1, "until": 2, "fault": "spike", "reason": ""}\n', "step, "),
        (b"\xff\xfe\n", "not a line of JSON"),
        (b"[1]\n", "a JSON object"),
        (b"{}\n", "unknown message 'None'"),
        (b'{"type": "sing"}\n', "unknown message 'sing'"),
        (b'{"type": ["hello"]}\n', "unknown message"),
        (b'{"type": "ready"}\n', "a ready that cannot be read"),
        (b'{"type": "ready", "generation": 1, "mood": "good"}\n', "a ready.*unknown fields mood"),
        (b'{"type": "ready", "generation": "1"}\n', "a ready whose generation is '1'"),
        (b'{"type": "ready", "generation": true}\n', "a ready whose generation"),
        (b'{"type": "ready", "generation": 1.0}\n', "a ready whose generation"),
        (b'{"type": "ready", "generation": -1}\n', "generation must be"),
        (b'{"type": "joined", "generation": 1, "pause_s": Infinity}\n', "pause_s must be"),
        (b'{"type": "progress", "step": null}\n', "a progress that cannot be read"),
        (b'{"type": "progress", "step": ' + b"9" * 400 + b"}\n", "step must be a number from 0 to 10"),
        (b'{"type": "progress", "step": 1, "total": 1' + b"0" * 16 + b"}\n", "total must be"),
        (b'{"type": "checkpointed", "step": "abc"}\n', "a checkpointed that cannot be read"),
        (b'{"type": "checkpointed", "step": 1, "blocking_s": -1.0}\n', "blocking_s must be"),
        (b'{"type": "checkpoint_failed", "step": "abc"}\n', "a checkpoint_failed that cannot be read"),
        (b'{"type": "checkpoint_failed", "step": 1, "reason": "' + b"x" * 5000 + b'"}\n', "at most 4000"),
        (b'{"type": "joined", "generation": 99999999999}\n', "generation must be"),
        (b'{"type": "suspended", "step": -1}\n', "step must be"),
        (b'{"type": "suspended", "step": [1]}\n', "a suspended"),
        (b"[" * 100_000 + b"\n", "not a line of JSON"),
        (b'{"type": "bye", "x": "' + b"x" * LONGEST_LINE + b'"}\n', "at most"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_anything_else_is_refused_by_name(line: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        WORKER_MESSAGES.decode(line)


@pytest.mark.parametrize(
    "change",
    [{"rank": 2}, {"rank": -1}, {"size": 3}, {"members": "w0"}, {"survivors": ["w7"]}, {"rendezvous": 5}],
    ids=str,
)
def test_a_world_that_contradicts_itself_is_refused(change: dict[str, object]) -> None:
    world = {
        "type": "world", "generation": 1, "rank": 0, "size": 2, "members": ["w0", "w1"], "rendezvous": "file:/x",
        "survivors": ["w0"],
    }  # fmt: skip
    assert AGENT_MESSAGES.decode(json.dumps(world).encode())
    with pytest.raises(ProtocolError, match="a world"):
        AGENT_MESSAGES.decode(json.dumps(world | change).encode())


@pytest.mark.parametrize("fields", [{}, {"version": 2}, {"version": "1"}, {"version": 2, "shape": "other"}], ids=str)
def test_another_version_is_told_in_one_sentence_whatever_else_it_says(fields: dict[str, object]) -> None:
    line = json.dumps({"type": "hello", "worker": "w0", "pid": 1, **fields}).encode()
    with pytest.raises(VersionError, match="install the same version of penstock where the worker runs"):
        WORKER_MESSAGES.decode(line)


def test_figures_that_are_not_numbers_reach_the_agent_as_such() -> None:
    progress = WORKER_MESSAGES.decode(b'{"type": "progress", "step": 3, "loss": NaN, "samples_per_s": Infinity}')
    assert isinstance(progress, TrainingProgress)
    assert math.isnan(progress.loss or 0.0)
    assert progress.samples_per_s == math.inf


def test_a_message_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(ProtocolError, match="a refused of"):
        AGENT_MESSAGES.encode(Refusal(reason="x" * LONGEST_LINE))


def test_the_protocol_needs_nothing_but_the_standard_library() -> None:
    code = "import sys, penstock.core; print(*{'torch', 'numpy', 'pydantic', 'asyncio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/run/a.sock",
        "unix:a.sock",
        "tcp://host",
        "tcp://:1",
        "tcp://h:x",
        "tcp://h:70000",
        "http://h:1",
        "tls://h:1",
        "tls://h:1/ab",
    ],
)
def test_addresses_have_one_form(text: str) -> None:
    with pytest.raises(InputError, match="unix:/path, tcp://host:port or tls://host:port/fingerprint"):
        AgentAddress.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "unix:/run/a b.sock",
        "tcp://10.0.0.7:2900",
        "tcp://[fe80::1]:80",
        "tcp://host.example:1",
        f"tls://[::1]:2/{'0a' * 32}",
    ],
)
def test_addresses_survive_the_way_through_text(text: str) -> None:
    assert str(AgentAddress.parse(text)) == text
