"""What devices draw at work where the curves of jobs do not say: for the energy of a run, and for policies."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from penstock.core import ANY_KIND, Curve, InputError, Job

_GUIDE = 'Try "400", or "A100=400,T4=70"'

Watts = tuple[tuple[str, float], ...]


def parse_watts(text: str) -> Watts:
    """
    >>> parse_watts("A100=400, T4=70"), parse_watts("300")
    ((('A100', 400.0), ('T4', 70.0)), (('*', 300.0),))
    """
    found: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        kind, equals, number = (piece.strip() for piece in part.rpartition("="))
        kind = kind if equals else ANY_KIND
        try:
            watts = float(number)
        except ValueError:
            watts = math.nan
        if not (kind and 0 < watts <= 1e6) or kind in found:
            raise InputError(f"{part!r} as what a device draws", "KIND=WATTS above 0, every kind once", _GUIDE)
        found[kind] = watts
    if not found:
        raise InputError(f"{text!r} as what devices draw", "watts, or KIND=WATTS for each kind", _GUIDE)
    return tuple(found.items())


def with_watts(job: Job, watts: Watts, kinds: Sequence[str]) -> Job:
    """The job with the power of its devices on every kind for which its curve says nothing about power."""
    return replace(job, curve=_powered(job.curve, watts, tuple(kinds))) if watts else job


@lru_cache(maxsize=65536)
def _powered(curve: Curve, watts: Watts, kinds: tuple[str, ...]) -> Curve:
    drawn, known = dict(watts), dict(curve.scalings)
    told = {kind: drawn.get(kind, drawn.get(ANY_KIND)) for kind in kinds}
    for kind, device_w in told.items():
        scaling = curve.scaling(kind)
        if scaling is not None and not scaling.watts and device_w is not None:
            known[kind] = replace(scaling, watts=tuple(device_w * count for count in scaling.counts))
    return Curve(tuple(known.items()))
