"""Measured speeds, kept: what one run of a job learned, the next one knows."""

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path

from penstock.core import Curve, CurveError, InputError, Scaling, Source
from penstock.learn.database import SharedDatabase
from penstock.learn.points import Point, ProfileResult, merged
from penstock.learn.predicted_shape import PredictedShape
from penstock.learn.scaling_model import Estimate

HALF_LIFE_S = 3600.0
MOST_DOUBT = 0.5
"""A promise never plans with less than half of a rate that was measured."""
UNKNOWN = 1.0
"""The uncertainty of a rate nobody ever measured: keep as much in reserve as is promised."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS points (
    fingerprint TEXT NOT NULL,
    kind TEXT NOT NULL,
    count INTEGER NOT NULL,
    rate REAL NOT NULL,
    spread REAL NOT NULL,
    seconds REAL NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (fingerprint, kind, count)
) WITHOUT ROWID
"""


class CurveStore:
    """Measured points by (fingerprint, kind of device, number of devices), and the curves through them.

    ``half_life_s`` is how long a job has to be watched until what was known before counts half.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = CurveStore(Path(folder.name) / "curves.db")
    >>> _ = store.observe("resnet", "cpu", 1, rate=10.0, seconds=60)
    >>> _ = store.observe("resnet", "cpu", 2, rate=18.0, seconds=60)
    >>> curve = store.curve("resnet", "cpu", max_count=2)
    >>> round(curve.rate(2, "cpu"), 6), str(curve.scaling("cpu").source)
    (18.0, 'measured')
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, *, half_life_s: float = HALF_LIFE_S, clock: Callable[[], float] = time.time) -> None:
        if not half_life_s > 0:
            raise InputError(f"a half-life of {half_life_s} s", "a positive number of seconds")
        self.path = path
        self.half_life_s = half_life_s
        self._clock = clock
        self._database = SharedDatabase(path, _SCHEMA)

    def observe(
        self, fingerprint: str, kind: str, count: int, rate: float, seconds: float, spread: float = 0.0
    ) -> Point:
        """Merge a rate seen for ``seconds`` with what is known, and return what is known now."""
        return self.record(
            [ProfileResult(fingerprint=fingerprint, kind=kind, count=count, rate=rate, seconds=seconds, spread=spread)]
        )[0]

    def record(self, results: Iterable[ProfileResult]) -> tuple[Point, ...]:
        """Merge several results in one transaction: all of them or none."""
        with self._database.writing() as database:
            return tuple(self._merge(database, result) for result in results)

    def points(self, fingerprint: str, kind: str) -> tuple[Point, ...]:
        """What was measured, by number of devices."""
        with self._database.reading() as database:
            rows = database.execute(
                "SELECT count, rate, spread, seconds, updated_at FROM points"
                " WHERE fingerprint = ? AND kind = ? ORDER BY count",
                (fingerprint, kind),
            ).fetchall()
        return tuple(_point(row) for row in rows)

    def adopt(self, scope: str) -> None:
        """Let what was measured without a tenant count for this one, where it has not measured the same itself."""
        with self._database.writing() as database:
            database.execute(
                "INSERT OR IGNORE INTO points SELECT ? || fingerprint, kind, count, rate, spread, seconds, updated_at"
                " FROM points WHERE instr(fingerprint, '-') = 0",
                (scope,),
            )

    def curve(
        self,
        fingerprint: str,
        kind: str,
        max_count: int,
        *,
        counts: Iterable[int] | None = None,
        guess: float | None = None,
        prior: Scaling | None = None,
    ) -> Curve:
        """Steps per second on up to ``max_count`` devices of a kind.

        The counts are those asked for, else every power of two, every measured count and ``max_count``. A measured
        count has its measured rate; the others follow the model fitted to the measured ones (see
        :class:`~penstock.learn.scaling_model.ScalingModel`). The curve is ``MEASURED`` only if every count in it was
        measured, ``PREDICTED`` as soon as one was not, ``GUESSED`` if none was: a promise is as good as the weakest
        number behind it, and its doubts say how good each is (see :meth:`uncertainty`). Rates are not forced to grow;
        ``Curve.levels`` leaves out counts that are no faster than smaller ones.

        ``prior`` is a scaling predicted from the job's model: it stands until something was measured, and is bent
        through whatever was. Without one, a job that was never measured on this kind has no curve, unless ``guess``
        gives its rate on one device.
        """
        points = self.points(fingerprint, kind)
        if prior is not None and not points:
            return Curve(((kind, _up_to(_positive(max_count), prior)),))
        estimate = _estimate(points, guess, prior)
        wanted = _counts(max_count, counts, [point.count for point in points])
        measured = {point.count: point.rate for point in points}
        rates = tuple(measured.get(count) or estimate.rate(count) for count in wanted)
        doubts = tuple(_doubt(estimate, count, count in measured) for count in wanted) if points else ()
        source = _source(wanted, measured)
        kept = tuple(count for count in wanted if count in measured) if source is Source.PREDICTED else ()
        scaling = Scaling(counts=wanted, rates=rates, source=source, doubts=doubts, measured=kept)
        return Curve(((kind, scaling),))

    def uncertainty(self, fingerprint: str, kind: str, count: int) -> float:
        """The relative spread to keep in reserve for a promise on ``count`` devices.

        0.05 means: plan with a rate 5 % lower. It is the measured spread where there is a measurement, reaches down to
        the least that the measurements around allow where there is none, and is 1 where nothing was ever measured.
        """
        points = self.points(fingerprint, kind)
        return Estimate.of(points).uncertainty(_positive(count)) if points else UNKNOWN

    def _merge(self, database: sqlite3.Connection, new: ProfileResult) -> Point:
        key = (new.fingerprint, new.kind, new.count)
        row = database.execute(
            "SELECT count, rate, spread, seconds, updated_at FROM points"
            " WHERE fingerprint = ? AND kind = ? AND count = ?",
            key,
        ).fetchone()
        now = self._clock()
        first = Point(count=new.count, rate=new.rate, spread=new.spread, seconds=new.seconds, updated_at=now)
        point = merged(_point(row), new, self.half_life_s, now) if row else first
        database.execute(
            "INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*key, point.rate, point.spread, point.seconds, point.updated_at),
        )
        return point


def _point(row: tuple[int, float, float, float, float]) -> Point:
    count, rate, spread, seconds, updated_at = row
    return Point(count=count, rate=rate, spread=spread, seconds=seconds, updated_at=updated_at)


def _estimate(points: tuple[Point, ...], guess: float | None, prior: Scaling | None) -> Estimate:
    if points:
        return Estimate.of(points, PredictedShape(prior) if prior else None)
    if guess is None:
        raise CurveError("a job that was never measured on this kind of device", "", "Profile it, or give a guess")
    return Estimate.of([Point(count=1, rate=guess, spread=0.0, seconds=1.0, updated_at=0.0)])


def _doubt(estimate: Estimate, count: int, is_measured: bool) -> float:
    doubt = estimate.uncertainty(count)
    return min(doubt, MOST_DOUBT) if is_measured else doubt


def _up_to(most: int, prior: Scaling) -> Scaling:
    """What was predicted for a larger cluster, on this one; the fewest devices it fits on stay."""
    kept = max(1, sum(count <= most for count in prior.counts))
    return replace(prior, counts=prior.counts[:kept], rates=prior.rates[:kept], doubts=prior.doubts[:kept])


def _source(wanted: tuple[int, ...], measured: Collection[int]) -> Source:
    if not measured:
        return Source.GUESSED
    return Source.MEASURED if set(wanted) <= set(measured) else Source.PREDICTED


def _counts(max_count: int, wanted: Iterable[int] | None, measured: Iterable[int]) -> tuple[int, ...]:
    top = _positive(max_count)
    powers = (1 << exponent for exponent in range(top.bit_length()))
    chosen = {*wanted} if wanted is not None else {*powers, *measured, top}
    inside = tuple(sorted(count for count in chosen if 1 <= count <= top))
    if not inside:
        raise CurveError(f"none of the counts is between 1 and {top}", "at least one")
    return inside


def _positive(count: int) -> int:
    if count < 1:
        raise CurveError(f"a curve up to {count} devices", "at least 1")
    return count
