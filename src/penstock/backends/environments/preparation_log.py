"""What was said while a job was made ready, kept where its output is read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.backends.agent.logs import LogWriter
from penstock.backends.agent.secrets import Mask


@contextmanager
def preparation_log(path: str, mask: Mask) -> Iterator[Callable[[bytes], None]]:
    """Who writes lines to the log at ``path``, without secrets; nobody, where there is no path."""
    if not path:
        yield lambda _: None
        return
    log = LogWriter(Path(path))
    try:
        yield lambda line: log.write(mask(line))
    finally:
        log.close()
