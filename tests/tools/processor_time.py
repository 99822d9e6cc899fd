"""A bound on processor time, for what has to stay quick whatever it is given."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def processor_seconds(most: float, what: str) -> Iterator[None]:
    """Raise AssertionError in the main thread once the process has used that much; patterns are interrupted too."""

    def over(_: int, __: FrameType | None) -> None:
        raise AssertionError(f"{what}: more than {most} s of processor time")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
