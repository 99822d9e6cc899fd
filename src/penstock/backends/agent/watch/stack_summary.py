"""What a set of stacks says in one line, and each of them in a file.

Of a worker the main thread counts. Its *position* is the innermost call of the person's own code; if below it a
collective was entered, or a backward pass, in which gradients are exchanged, the worker waits for others there.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from penstock.core import StackFrame, ThreadStack

_LIBRARIES = re.compile(r"/(site-packages|dist-packages|lib/python3[^/]*|lib64/python3[^/]*)/|^<frozen ")
_OURS = re.compile(r"/penstock/(runtime|backends|core|elastic)\b")
_COLLECTIVES = frozenset({
    "all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "broadcast",
    "barrier", "all_to_all", "all_to_all_single", "broadcast_object_list", "all_gather_object", "monitored_barrier",
    "send", "recv", "wait",
})  # fmt: skip
_BACKWARD = "_engine_run_backward"
_SETTLING = "_settle_device"
_MEETING = "take_order"
_LONGEST_LINE = 500
_SPY_PROCESS = re.compile(r"Process (?P<id>\d+):")
_SPY_THREAD = re.compile(r'Thread (?P<id>\S+) \(.*?\)(: "(?P<name>.*)")?$')
_SPY_CALL = re.compile(r"\s+(?P<function>.+) \((?P<file>.*):(?P<line>\d+)\)$")
_MOST_NAMED = 4


def main_thread(threads: Sequence[ThreadStack]) -> tuple[StackFrame, ...]:
    return next((thread.frames for thread in threads if thread.is_main), ())


def position(threads: Sequence[ThreadStack]) -> tuple[str, ...]:
    """The functions that the main thread is in: equal twice, it has not moved as far as anybody can tell."""
    return tuple(frame.function for frame in main_thread(threads))


def whereabouts(threads: Sequence[ThreadStack]) -> str:
    """What a worker is doing, in a few words."""
    frames = main_thread(threads)
    if not frames:
        return "is nowhere"
    own = next((frame for frame in reversed(frames) if _is_own(frame)), None)
    at = f" ({PurePath(own.file).name}:{own.line})" if own else ""
    below = [_name(frame) for frame in frames]
    if (collective := _waits_in(below, frames)) is not None:
        return f"waits in {collective}{at}"
    inner = own or frames[-1]
    return f"is in {_name(inner)} ({PurePath(inner.file).name}:{inner.line})"


def summary(looked: Mapping[str, Sequence[ThreadStack]], unseen: Mapping[str, str]) -> str:
    """Workers that do the same in one phrase, most of them first; ``unseen`` says why some could not be looked at."""
    places: dict[str, list[str]] = {}
    for worker, threads in looked.items():
        places.setdefault(whereabouts(threads), []).append(worker)
    for worker, why in unseen.items():
        places.setdefault(why, []).append(worker)
    total = len(looked) + len(unseen)
    ranked = sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))
    shown = [_phrase(where, workers, total) for where, workers in ranked[:_MOST_NAMED]]
    more = len(ranked) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more > 0 else "")


def as_text(threads: Sequence[ThreadStack]) -> str:
    """Stacks as Python prints them."""
    blocks = []
    for thread in threads:
        calls = [f'  File "{frame.file}", line {frame.line}, in {frame.function}' for frame in thread.frames]
        blocks.append("\n".join([f"thread {thread.name}{' (main)' if thread.is_main else ''}:", *calls]))
    return "\n\n".join(blocks) + "\n"


def read_spy(text: str) -> tuple[ThreadStack, ...]:
    """Stacks as ``py-spy dump`` prints them, the innermost call first; the main thread is numbered as its process."""
    threads: list[tuple[str, str, list[StackFrame]]] = []
    lines = [line[:_LONGEST_LINE] for line in text.splitlines()]
    process = next((found["id"] for line in lines if (found := _SPY_PROCESS.match(line))), "")
    for line in lines:
        if (head := _SPY_THREAD.match(line)) is not None:
            threads.append((head["id"], head["name"] or head["id"], []))
        elif threads and (call := _SPY_CALL.match(line)) is not None:
            threads[-1][2].insert(0, StackFrame(file=call["file"], line=int(call["line"]), function=call["function"]))
    return tuple(
        ThreadStack(name=name, frames=tuple(frames), is_main=name == "MainThread" or number == process)
        for number, name, frames in threads
        if frames
    )


def _phrase(where: str, workers: Sequence[str], total: int) -> str:
    if len(workers) == 1:
        return f"worker {workers[0]} {where}"
    many = re.sub(r"^waits\b", "wait", re.sub(r"^is\b", "are", where))
    return f"{len(workers)} of {total} workers {many}"


def _waits_in(names: Sequence[str], frames: Sequence[StackFrame]) -> str | None:
    """The outermost collective of a library's that the thread has entered, if it has."""
    for name, frame in zip(names, frames, strict=True):
        if name in _COLLECTIVES and not _is_own(frame):
            return name
    if _BACKWARD in names:
        return "backward, where gradients are exchanged,"
    if _SETTLING in names:
        return "the exchange of gradients"
    return "a change of the world" if _MEETING in names else None


def _is_own(frame: StackFrame) -> bool:
    return not (_LIBRARIES.search(frame.file) or _OURS.search(frame.file))


def _name(frame: StackFrame) -> str:
    """Without the class or function around it."""
    return frame.function.rpartition(".")[2]
