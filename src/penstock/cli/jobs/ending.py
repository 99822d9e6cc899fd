"""How a job ended, as the exit code of the verb that waited for it."""

import time
from typing import TYPE_CHECKING

from penstock.core import PenstockError

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.wire import JobDetail

DECLINED = 3
"""The exit code for a job that was refused."""
EXIT_CODES = {"finished": 0, "failed": 1, "declined": DECLINED, "cancelled": 4}
"""What a verb ends with where the job itself gives no code."""
_FIRST_POLL_S, _LAST_POLL_S = 0.1, 2.0


class WaitedError(PenstockError):
    """A wait that took as long as it was allowed to; the exit code is that of ``timeout``."""

    exit_code = 124


def exit_code(ended: "JobDetail") -> int:
    """The job's own code where it has one."""
    return ended.exit_code or EXIT_CODES.get(ended.state, 1)


def await_end(client: "Client", job: str, deadline: float = float("inf")) -> "JobDetail":
    """The job once it is over. ``deadline`` is in monotonic seconds; after it a :class:`WaitedError` is raised."""
    pause = _FIRST_POLL_S
    while (detail := client.job(job)).state not in EXIT_CODES:
        if time.monotonic() >= deadline:
            raise WaitedError(f"{job} is still {detail.state}: the wait is over, the job goes on")
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(2 * pause, _LAST_POLL_S)
    return detail
