"""What admission works out serves the allocation of the same decision, and changes nothing about it."""

from collections.abc import Sequence

import pytest

from penstock.core import Cluster, Quote
from penstock.policies import Assignment, DeadlinePolicy, Ints, PlannedQuotes, View
from penstock.simulate import Profiles, costs_named, generate, simulate
from penstock.simulate.traces import interval_for_load, jobs_of


class Counting(DeadlinePolicy):
    """Counts the allocations that find something worked out."""

    carried_over = 0

    def allocate(self, view: View) -> Assignment:
        self.carried_over += view.worked_out is not None
        return super().allocate(view)


class Forgetful(Counting):
    """Leaves nothing but the plans to the allocation."""

    def admit(self, view: View, rows: Ints) -> Sequence[Quote | None]:
        quotes = super().admit(view, rows)
        plans = PlannedQuotes.plans_of(quotes)
        return quotes if plans is None else PlannedQuotes(quotes, plans)


@pytest.mark.parametrize(("load", "overhead"), [(1.0, "measured"), (2.0, "none"), (3.0, "artifact")])
def test_the_same_is_decided_with_and_without_what_was_worked_out(load: float, overhead: str) -> None:
    cluster, profiles = Cluster.parse("4x8"), Profiles.builtin()
    interval = interval_for_load(load, cluster.device_count)
    jobs = list(jobs_of(generate(120, seed=5, profiles=profiles, mean_interval_s=interval), profiles))
    counting, forgetful = Counting(), Forgetful()
    results = [
        simulate(jobs, cluster, policy, slot=60.0, costs=costs_named(overhead, cluster, 60.0))
        for policy in (counting, forgetful)
    ]
    assert (counting.carried_over > 30, forgetful.carried_over) == (True, 0)
    first, second = (sorted((each.id, repr(each)) for each in result.outcomes) for result in results)
    assert first == second
