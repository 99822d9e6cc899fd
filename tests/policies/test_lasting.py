"""Jobs that are held on their devices, whatever a policy would rather do."""

import numpy as np

from penstock.core import Overhead
from penstock.policies import Assignment, View, allocate_lasting
from tests.policies.views import Row, whole_view


def _stop_first(view: View) -> Assignment:
    """Stops the first row that it is asked about."""
    widths = view.width.copy()
    widths[:1] = 0
    return Assignment(view.bound, widths, (np.inf,))


def test_every_job_is_held_although_another_would_be_stopped_in_its_place_each_time() -> None:
    view = whole_view(*(Row(width=1) for _ in range(9)), capacity=9, overhead=Overhead(change_s=10.0))
    decided = allocate_lasting(_stop_first, view, 4.0, bounded=True)
    assert decided.widths.tolist() == [1] * 9
    assert decided.wake_at == (4.0 * 10.0,)
