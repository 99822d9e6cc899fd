"""How much of the cluster is held, when, and what stands idle."""

from collections.abc import Iterator

import numpy as np

from penstock.policies import Floats
from penstock.simulate.analysis.observed import Observed
from penstock.simulate.analysis.occupancy import Occupancy
from penstock.simulate.analysis.queueing import NEEDED
from penstock.simulate.analysis.sections import Advice, Picture, Section, Series, hours, percent

_NIGHT = 0.25
"""How much lower use may be in the quietest hours than in the busiest before it is worth a word."""


def usage_section(observed: Observed, occupancy: Occupancy | None) -> Section:
    if occupancy is None:
        return Section(name="use", title="Use of the devices", unknown=NEEDED)
    by_hour, idle_s = occupancy.by_hour(), (1 - occupancy.used) * occupancy.devices * float(occupancy.seconds.sum())
    guessed = "" if observed.devices else " (the most that were ever held: --cluster says how many there are)"
    return Section(
        name="use", title="Use of the devices", columns=("figure", "value"),
        rows=[
            ("devices", f"{occupancy.devices:,}{guessed}"), ("held, of all device-time", percent(occupancy.used)),
            ("idle device-hours", hours(idle_s)), ("busiest hour of the day", _hour(by_hour, int(by_hour.argmax()))),
            ("quietest hour of the day", _hour(by_hour, int(by_hour.argmin()))),
            ("waited while enough was free", percent(occupancy.waited_though_fitting)),
            ("waited beside too few free devices", percent(occupancy.waited_fragmented)),
        ],
        advice=list(_advice(by_hour, occupancy)) if observed.devices else (),
        picture=Picture(
            title="Devices held by hour of the day", unit="h",
            lines=[Series(name="held", x=list(map(float, range(24))), y=by_hour.tolist())],
        ),
    )  # fmt: skip


def _hour(by_hour: Floats, hour: int) -> str:
    return f"{hour:02d}:00, {percent(float(by_hour[hour]))}"


def _advice(by_hour: Floats, occupancy: Occupancy) -> Iterator[Advice]:
    swing = float(by_hour.max() - by_hour.min())
    if swing > _NIGHT:
        yield Advice(
            title=f"Use falls from {percent(float(by_hour.max()))} to {percent(float(by_hour.min()))} over a day",
            text=f"The quietest hours begin at {int(by_hour.argmin()):02d}:00.",
            action="Give work that can wait a deadline in the morning: penstock submit --deadline 'tomorrow 8:00'.",
        )
    if occupancy.used < 0.5 and occupancy.waiting_s > 0:
        queued = np.average(occupancy.waiting > 0, weights=occupancy.seconds)
        yield Advice(
            title=f"{percent(1 - occupancy.used)} of the devices' time is idle",
            text=f"All the same somebody waits {percent(float(queued))} of the time: a matter of scheduling.",
            action="Replay the same jobs under another policy: penstock simulate TRACE --policy unified,fifo.",
        )
