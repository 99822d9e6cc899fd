"""What every thread of this process is doing, for whoever asks why nothing moves.

The agent asks over its line, and the thread that keeps the line answers: that works on any machine, and while the main
thread waits in a collective. Code that hangs with the interpreter's lock held lets no thread answer; then the agent
sends a signal, on which the interpreter writes its stacks to the worker's output without needing that lock.
"""

import faulthandler
import sys
import threading
from types import FrameType

from penstock.core import LONGEST_TEXT, MOST_FRAMES, MOST_THREADS, STACK_SIGNAL, StackFrame, ThreadStack, clean_text


def take_stacks() -> tuple[ThreadStack, ...]:
    """All threads but the one that asks, the main one first."""
    named = {thread.ident: thread.name for thread in threading.enumerate()}
    main, own = threading.main_thread().ident, threading.get_ident()
    found = [
        ThreadStack(name=clean_text(named.get(ident, f"thread {ident}")), frames=_frames(top), is_main=ident == main)
        for ident, top in sys._current_frames().items()
        if ident != own or ident == main
    ]
    return tuple(sorted(found, key=lambda stack: not stack.is_main)[:MOST_THREADS])


def answer_signals() -> None:
    """Write stacks to standard error whenever the agent's signal comes; harmless where there is none to write to."""
    if sys.stderr is not None and threading.current_thread() is threading.main_thread():
        faulthandler.register(STACK_SIGNAL, file=sys.__stderr__ or sys.stderr, all_threads=True)


def _frames(top: FrameType | None) -> tuple[StackFrame, ...]:
    """The outermost first; of a very deep stack the innermost calls."""
    found: list[StackFrame] = []
    while top is not None and len(found) < MOST_FRAMES:
        code = top.f_code
        found.append(
            StackFrame(
                file=clean_text(code.co_filename, LONGEST_TEXT), line=top.f_lineno or 0,
                function=clean_text(code.co_qualname, LONGEST_TEXT),
            )
        )  # fmt: skip
        top = top.f_back
    return tuple(reversed(found))
