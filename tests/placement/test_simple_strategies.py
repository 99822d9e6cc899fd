"""Best fit, first fit and spread do what their names say."""

from penstock.core import Cluster
from penstock.placement import Ask, BestFit, FirstFit, Occupancy, Placement, Spread


def full_of(shape: str, jobs: dict[int, tuple[int, ...]]) -> Occupancy:
    occupancy = Occupancy(Cluster.parse(shape), "gpu")
    for key, devices in jobs.items():
        occupancy.take(key, devices)
    return occupancy


def place(strategy: Placement, occupancy: Occupancy, key: int, width: int) -> tuple[int, ...]:
    return strategy.place(occupancy, [Ask(key, width, occupancy.devices(key))])[key]


def test_best_fit_takes_the_fullest_node_with_room() -> None:
    occupancy = full_of("3x4", {0: (4,), 1: (8, 9, 10)})
    assert place(BestFit(), occupancy, 2, 2) == (6, 7)
    assert place(BestFit(), occupancy, 3, 1) == (5,)
    assert place(BestFit(), occupancy, 4, 1) == (11,)
    assert place(BestFit(), occupancy, 5, 4) == (0, 1, 2, 3)


def test_best_fit_fills_whole_nodes_and_the_tightest_rest() -> None:
    occupancy = full_of("4x4", {0: (4,), 1: (12, 13)})
    assert place(BestFit(), occupancy, 2, 10) == (*range(4), *range(8, 12), 14, 15)


def test_best_fit_falls_back_to_the_fewest_nodes() -> None:
    occupancy = full_of("4x4", {0: (0, 1, 2), 1: (4, 5), 2: (8,), 3: (12, 13, 14)})
    assert place(BestFit(), occupancy, 4, 4) == (3, 9, 10, 11)
    assert place(BestFit(), occupancy, 5, 3) == (6, 7, 15)


def test_best_fit_moves_a_growing_job_only_to_use_fewer_nodes() -> None:
    occupancy = full_of("3x4", {0: (0, 1), 1: (2, 3)})
    assert place(BestFit(), occupancy, 0, 3) == (4, 5, 6)
    assert place(BestFit(), occupancy, 0, 4) == (4, 5, 6, 7)
    assert place(BestFit(), occupancy, 0, 6) == (0, 1, 4, 5, 6, 7)


def test_best_fit_shrinks_to_the_smallest_part_that_suffices() -> None:
    occupancy = full_of("2x4", {0: (0, 1, 2, 3, 4, 5)})
    assert place(BestFit(), occupancy, 0, 2) == (4, 5)


def test_first_fit_takes_the_lowest_indices() -> None:
    occupancy = full_of("3x4", {0: (0, 2, 5)})
    assert place(FirstFit(), occupancy, 1, 4) == (1, 3, 4, 6)
    assert place(FirstFit(), occupancy, 2, 3) == (7, 8, 9)


def test_first_fit_grows_by_the_lowest_and_shrinks_to_the_lowest() -> None:
    occupancy = full_of("3x4", {0: (3, 9), 1: (0,)})
    assert place(FirstFit(), occupancy, 0, 5) == (1, 2, 3, 4, 9)
    assert place(FirstFit(), occupancy, 0, 2) == (1, 2)


def test_spread_uses_one_device_per_node_emptiest_first() -> None:
    occupancy = full_of("4x4", {0: (0, 1), 1: (4,)})
    assert place(Spread(), occupancy, 2, 2) == (8, 12)
    assert place(Spread(), occupancy, 3, 3) == (5, 9, 13)


def test_spread_goes_round_when_there_are_more_devices_than_nodes() -> None:
    occupancy = full_of("1x2+2x4", {})
    assert place(Spread(), occupancy, 0, 7) == (0, 1, 2, 3, 4, 6, 7)


def test_spread_grows_where_the_job_is_not_yet_and_shrinks_evenly() -> None:
    occupancy = full_of("3x4", {0: (0, 1), 1: (8, 9, 10)})
    assert place(Spread(), occupancy, 0, 4) == (0, 1, 4, 11)
    assert place(Spread(), occupancy, 0, 3) == (0, 4, 11)
