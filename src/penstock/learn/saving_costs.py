"""What saving costs and how often runs fail: enough to say how often a job should save.

Every checkpoint tells for how long it held training up, every run that ends how many devices it held, for how long, and
whether it failed. Failures are counted per device and second, over all jobs of a machine room: what breaks is seldom
one job's own. Where little was seen, a prior weighs in: one failure in a thousand hours of a device, our own guess.
"""

from pathlib import Path
from statistics import median

from penstock.core import InputError, SavingInterval, best_interval_s
from penstock.learn.database import SharedDatabase

PRIOR_DEVICE_S = 1000 * 3600.0
"""Device time with one failure in it that everybody is believed to have seen already."""
_KEPT = 8
_LEAST_COST_S = 0.001
_BOUNDS_S = (10.0, 3600.0)
"""More often than this a disk would do nothing else; less often nobody would trust."""

_SAVES = """
CREATE TABLE IF NOT EXISTS saves (fingerprint TEXT NOT NULL, seconds REAL NOT NULL)
"""
_HAZARD = """
CREATE TABLE IF NOT EXISTS hazard (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    failures INTEGER NOT NULL,
    device_s REAL NOT NULL
)
"""
_FORGET = (
    "DELETE FROM saves WHERE fingerprint = :fingerprint AND rowid NOT IN"
    " (SELECT rowid FROM saves WHERE fingerprint = :fingerprint ORDER BY rowid DESC LIMIT :kept)"
)


class SavingCosts:
    """Costs of checkpoints by job, failures of all.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> costs = SavingCosts(Path(folder.name) / "curves.db")
    >>> costs.interval("resnet", devices=1)
    >>> costs.saved("resnet", 0.2)
    >>> costs.ran(device_s=PRIOR_DEVICE_S, failed=True)
    >>> print(costs.interval("resnet", devices=25))
    saves every 4m: each costs 0.2 s, failures about every 1d 16h
    >>> folder.cleanup()
    """

    def __init__(self, path: Path) -> None:
        self._database = SharedDatabase(path, _SAVES)
        with self._database.writing() as database:
            database.execute(_HAZARD)

    def saved(self, fingerprint: str, blocking_s: float) -> None:
        """A checkpoint held training up for so long."""
        if not (0.0 <= blocking_s < 1e7 and fingerprint):
            raise InputError(f"a checkpoint of {fingerprint!r} that took {blocking_s} s", "0 or more seconds")
        with self._database.writing() as database:
            database.execute("INSERT INTO saves VALUES (?, ?)", (fingerprint, blocking_s))
            database.execute(_FORGET, {"fingerprint": fingerprint, "kept": _KEPT})

    def ran(self, *, device_s: float, failed: bool) -> None:
        """A run has ended that held devices for so long together."""
        with self._database.writing() as database:
            database.execute(
                "INSERT INTO hazard VALUES (1, :failures, :device_s) ON CONFLICT (one) DO UPDATE SET"
                " failures = failures + :failures, device_s = device_s + :device_s",
                {"failures": int(failed), "device_s": max(device_s, 0.0)},
            )

    def interval(self, fingerprint: str, *, devices: int) -> SavingInterval | None:
        """How often a job on so many devices should save; nothing before it has saved once."""
        with self._database.reading() as database:
            rows = database.execute("SELECT seconds FROM saves WHERE fingerprint = ?", (fingerprint,)).fetchall()
            seen = database.execute("SELECT failures, device_s FROM hazard").fetchone() or (0, 0.0)
        if not rows:
            return None
        cost = max(median(seconds for (seconds,) in rows), _LEAST_COST_S)
        apart = (seen[1] + PRIOR_DEVICE_S) / (seen[0] + 1) / max(devices, 1)
        seconds = min(max(best_interval_s(cost, apart), _BOUNDS_S[0]), _BOUNDS_S[1])
        return SavingInterval(seconds=seconds, cost_s=cost, between_failures_s=apart)
