"""What a loop that is not ours tells the platform, and hears from it: a file for progress, lines of output, a signal.

Outside of a job nothing is told, and ``SIGTERM`` does what it always did.
"""

import math
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from penstock.core import is_metric_name, is_url, metric_name
from penstock.runtime.training.metric_log import log
from penstock.tools import write_atomically

_TELL_EVERY_S = 0.5
_STEPS_AHEAD = 2


class PlainWorker:
    """One worker of a run whose loop belongs to another library."""

    def __init__(self) -> None:
        self._progress_file = os.environ.get("PENSTOCK_PROGRESS", "")
        self._told_at = 0.0
        self._asked = False
        self._stop_at: int | None = None
        self._before: Any = None

    @property
    def is_main(self) -> bool:
        return os.environ.get("RANK", "0") == "0"

    def listen(self) -> None:
        """Hear ``SIGTERM`` from now on, if a run has started this process."""
        if os.environ.get("PENSTOCK_AGENT"):
            with suppress(ValueError):  # not the main thread: then nobody hears it
                self._before = signal.signal(signal.SIGTERM, self._hear)

    def stop_listening(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    def progress(self, step: int, total: float) -> None:
        """How far the loop is; often is cheap."""
        done = math.isfinite(total) and step >= total
        if not (self._progress_file and self.is_main) or (
            time.monotonic() - self._told_at < _TELL_EVERY_S and not done
        ):
            return
        self._told_at = time.monotonic()
        known = f" total={int(total)}" if math.isfinite(total) and total > 0 else ""
        with suppress(OSError):
            write_atomically(Path(self._progress_file), f"step={step}{known}")

    def log(self, values: Mapping[str, Any], step: int) -> None:
        """The numbers among some values, under names that metrics may have."""
        numbers = {metric_name(str(name)): _number(value) for name, value in values.items()}
        log({name: value for name, value in numbers.items() if value is not None and is_metric_name(name)}, step=step)

    def saved(self, step: int, path: str) -> None:
        """State is on the disk: the job can go on from it."""
        if self.is_main and os.environ.get("PENSTOCK_AGENT"):
            sys.stdout.write(f"penstock: checkpointed step={step} path={path}\n")
            sys.stdout.flush()

    def must_stop(self, step: int) -> bool:
        """Whether to save now and leave. All workers of a world say so after the same step.

        The signal reaches them at different moments: the first one to hear it says in a file of the checkpoint
        directory after which step, a little ahead, and the others read that.
        """
        if self._asked and self._stop_at is None:
            self._stop_at = self._agreed(step)
        return self._stop_at is not None and step >= self._stop_at

    def leave(self) -> None:
        """End the process; what follows the loop is for a training that is done."""
        sys.stdout.flush()
        sys.exit(0)

    def _hear(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked = True

    def _agreed(self, step: int) -> int:
        directory = os.environ.get("PENSTOCK_CHECKPOINT_DIR", "")
        if os.environ.get("WORLD_SIZE", "1") == "1" or not directory or is_url(directory):
            return step
        world = [os.environ.get(name, "0") for name in ("PENSTOCK_ATTEMPT", "PENSTOCK_GENERATION", "MASTER_PORT")]
        place = Path(directory, f".stop-{'-'.join(world)}")
        draft = place.with_name(f"{place.name}.{os.environ.get('RANK', '0')}")
        try:
            draft.write_text(str(step + _STEPS_AHEAD))
            with suppress(FileExistsError):
                os.link(draft, place)
            return int(place.read_text())
        except (OSError, ValueError):
            return step
        finally:
            draft.unlink(missing_ok=True)


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, str) else float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
