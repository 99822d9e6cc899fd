"""What is still to be done on every kind of device, for forecasts that cannot wait for a whole simulation."""

import numpy as np

from penstock.policies import View
from penstock.scheduler.table import JobTable


def backlog(view: View, table: JobTable) -> dict[str, list[tuple[str, float, float]]]:
    """By kind: (job, device-seconds still needed at its narrowest, projected end), the cheapest first."""
    return {name: _of_kind(view, kind, table) for kind, name in enumerate(view.kinds)}


def _of_kind(view: View, kind: int, table: JobTable) -> list[tuple[str, float, float]]:
    rows, here = view.rows_of(kind), view.of_kind(kind)
    ends = table.finish_at[: len(table)] if rows is None else table.finish_at[rows]
    still = np.where(here.width > 0, here.still_s, here.start_s)
    seconds = here.levels[:, 0] * (here.remaining / here.rates[:, 0] + still)
    order = np.argsort(seconds, kind="stable").tolist()
    return [(here.jobs[row].id, float(seconds[row]), float(ends[row])) for row in order]
