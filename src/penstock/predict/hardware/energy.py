"""Power and energy: what a device draws depends on what its kernels wait for, and on the limit it was given.

A kernel that keeps the arithmetic units busy draws near the design power, one that waits for memory less, one too
short to fill the device little more than an idle one. Each class has a share of the range between idle and design
power; a profile with measured energy replaces the default shares by fitted ones. Under a power limit the clock gives
way: the draw approaches the limit from below, and arithmetic slows down while memory does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from penstock.core import InputError
from penstock.predict.hardware.bounds import Bound
from penstock.predict.hardware.chip import Chip

_DEFAULT_SHARES = MappingProxyType(
    {Bound.COMPUTE: 0.9, Bound.L2: 0.75, Bound.DRAM: 0.65, Bound.UNDERUSED: 0.45, Bound.LATENCY: 0.25}
)
_KNEE = 5.0
"""How sharply demand gives way to the limit; fitted to Zeus's measurements (``python -m bench.hardware``)."""
_POWER_EXPONENT = 2.4
"""Dynamic power grows with about this power of the clock (voltage rises with it)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPower:
    """Watts by class of kernel, and between kernels (``idle_w``)."""

    idle_w: float
    watts: Mapping[Bound, float] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, chip: Chip) -> "ClassPower":
        """Default shares of the range between idle and design power."""
        span = chip.tdp_w - chip.idle_w
        return cls(
            idle_w=chip.idle_w,
            watts={bound: chip.idle_w + share * span for bound, share in _DEFAULT_SHARES.items()},
        )

    def energy_j(self, seconds: Mapping[Bound, float], wall_s: float | None = None) -> float:
        """Joules of an iteration whose kernels take so long by class; the rest of ``wall_s`` is idle."""
        busy = sum(seconds.values())
        wall = busy if wall_s is None else wall_s
        if min(seconds.values(), default=0.0) < 0 or wall < busy * (1 - 1e-9):
            raise InputError(
                f"kernels of {busy} s within {wall} s", "no negative times, and a wall time that holds them"
            )
        return sum(self.watts[bound] * each for bound, each in seconds.items()) + self.idle_w * max(0.0, wall - busy)


def energy_j(seconds: Mapping[Bound, float], chip: Chip, wall_s: float | None = None) -> float:
    """Joules on a device without measured power."""
    return ClassPower.of(chip).energy_j(seconds, wall_s)


def capped_power_w(demand_w: float, limit_w: float, knee: float = _KNEE) -> float:
    """What is drawn on average where ``demand_w`` would be without a limit: phases below it stay, others are cut."""
    _positive_power(demand_w, limit_w)
    return float((demand_w**-knee + limit_w**-knee) ** (-1 / knee))


def demand_w(drawn_w: float, limit_w: float, knee: float = _KNEE) -> float:
    """The inverse of :func:`capped_power_w`: what a run that drew ``drawn_w`` under a limit wants without one."""
    _positive_power(drawn_w, limit_w)
    left = max(drawn_w**-knee - limit_w**-knee, (1.5 * limit_w) ** -knee)
    return float(left ** (-1 / knee))


def slowdown(
    demanded_w: float, limit_w: float, chip: Chip, compute_share: float, exponent: float = _POWER_EXPONENT
) -> float:
    """Time under a limit over time without: compute slows with the clock, dynamic power falls with a power of it."""
    drawn = capped_power_w(demanded_w, limit_w)
    dynamic = max(1e-3, drawn - chip.idle_w) / max(1e-3, demanded_w - chip.idle_w)
    clock = min(1.0, dynamic ** (1 / exponent))
    return float(1 - compute_share + compute_share / clock)


def _positive_power(demanded_w: float, limit_w: float) -> None:
    if not (demanded_w > 0 and limit_w > 0):
        raise InputError(f"{demanded_w} W under a limit of {limit_w} W", "positive watts")
