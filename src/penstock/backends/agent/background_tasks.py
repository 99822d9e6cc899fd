"""Work that an event loop goes on with while nobody waits for it: kept alive, and heard of if it fails."""

import asyncio
import logging
from collections.abc import Coroutine

_log = logging.getLogger(__name__)


class BackgroundTasks:
    """The tasks of one owner; an event loop by itself forgets those that nobody holds."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def settle(self) -> None:
        """Wait until all of them have ended, however they do."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("something went wrong in the background", exc_info=error)
