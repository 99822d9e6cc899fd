"""Stacks of many workers in one line."""

from penstock.backends.agent.watch.stack_summary import position, read_spy, summary, whereabouts
from penstock.core import StackFrame, ThreadStack

_TORCH = "/env/lib/python3.12/site-packages/torch"


def stack(*calls: tuple[str, int, str], name: str = "MainThread") -> tuple[ThreadStack, ...]:
    frames = tuple(StackFrame(file=file, line=line, function=function) for file, line, function in calls)
    side = ThreadStack(name="penstock-link", frames=(StackFrame(file="/x/link.py", line=1, function="_run"),))
    return (ThreadStack(name=name, frames=frames, is_main=True), side)


_SPIED = """Process 4411: python train.py
Python v3.12.3 (/usr/bin/python3.12)

Thread 4411 (idle): "MainThread"
    load_batch (train.py:41)
    main (train.py:80)
    <module> (train.py:97)
Thread 4420 (idle): "Thread-1 (_run)"
    wait (threading.py:331)
"""
SCRIPT = ("/home/ann/train.py", 80, "main")
REDUCING = stack(SCRIPT, (f"{_TORCH}/distributed/distributed_c10d.py", 9, "all_reduce"), (f"{_TORCH}/x.py", 3, "wait"))
LOADING = stack(
    SCRIPT, ("/home/ann/data.py", 41, "Loader.load_batch"), ("/env/lib/python3.12/socket.py", 7, "recv_into")
)
BACKWARD = stack(SCRIPT, ("/src/penstock/runtime/training/step.py", 5, "Step.backward"),
                 (f"{_TORCH}/autograd/graph.py", 3, "_engine_run_backward"))  # fmt: skip


def test_many_that_wait_and_one_that_does_not() -> None:
    line = summary({"w0": REDUCING, "w1": REDUCING, "w2": LOADING, "w3": REDUCING}, {})
    assert line == "3 of 4 workers wait in all_reduce (train.py:80), worker w2 is in load_batch (data.py:41)"


def test_where_one_worker_is() -> None:
    assert whereabouts(BACKWARD) == "waits in backward, where gradients are exchanged, (train.py:80)"
    assert whereabouts(stack(("/src/penstock/runtime/agent/link.py", 3, "AgentLink.take_order"))) == (
        "waits in a change of the world"
    )
    assert whereabouts(stack((f"{_TORCH}/nn.py", 3, "forward"))) == "is in forward (nn.py:3)"
    assert whereabouts(()) == "is nowhere"


def test_a_function_of_the_script_that_is_called_like_a_collective_is_none() -> None:
    assert whereabouts(stack(SCRIPT, ("/home/ann/train.py", 9, "broadcast"))) == "is in broadcast (train.py:9)"


def test_workers_that_cannot_be_seen_are_counted() -> None:
    line = summary({"w0": LOADING}, {"w1": "shows no Python stack", "w2": "shows no Python stack"})
    assert line == "2 of 3 workers shows no Python stack, worker w0 is in load_batch (data.py:41)"


def test_what_py_spy_prints_is_read() -> None:
    (main, side) = read_spy(_SPIED)
    assert (main.is_main, [frame.function for frame in main.frames]) == (True, ["<module>", "main", "load_batch"])
    assert (side.name, side.is_main) == ("Thread-1 (_run)", False)
    assert whereabouts((main, side)) == "is in load_batch (train.py:41)"
    assert read_spy("Error: Permission Denied\n") == ()
    (unnamed, _) = read_spy(_SPIED.replace(': "MainThread"', ""))
    assert (unnamed.name, unnamed.is_main) == ("4411", True)


def test_a_thread_has_moved_when_it_is_in_another_function() -> None:
    other_line = stack(("/home/ann/train.py", 81, "main"), ("/home/ann/data.py", 44, "Loader.load_batch"),
                       ("/env/lib/python3.12/socket.py", 7, "recv_into"))  # fmt: skip
    assert position(LOADING) == position(other_line) != position(REDUCING)
