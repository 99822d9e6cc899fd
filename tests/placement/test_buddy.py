"""Buddy placement: aligned, sticky, compact, and frugal with moves."""

from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import Cluster, fewest_nodes
from penstock.placement import Ask, Buddy, Occupancy
from penstock.placement.buddy import _cheapest_to_leave, _Job


def full_of(shape: str, jobs: dict[int, tuple[int, ...]]) -> Occupancy:
    occupancy = Occupancy(Cluster.parse(shape), "gpu")
    for key, devices in jobs.items():
        occupancy.take(key, devices)
    return occupancy


def start(occupancy: Occupancy, key: int, width: int) -> dict[int, tuple[int, ...]]:
    return Buddy().place(occupancy, [Ask(key, width)])


def resize(occupancy: Occupancy, key: int, width: int) -> dict[int, tuple[int, ...]]:
    return Buddy().place(occupancy, [Ask(key, width, occupancy.devices(key))])


def test_the_smallest_block_that_fits_is_used() -> None:
    occupancy = full_of("2x8", {0: (0, 1, 2, 3, 4)})
    assert start(occupancy, 1, 2) == {1: (6, 7)}
    assert start(occupancy, 2, 1) == {2: (5,)}
    assert start(occupancy, 3, 2) == {3: (8, 9)}


def test_equal_blocks_are_taken_from_the_fullest_node() -> None:
    occupancy = full_of("2x8", {0: (0, 1), 1: (8, 9, 12, 13, 14, 15)})
    assert start(occupancy, 2, 2) == {2: (10, 11)}


def test_blocks_are_aligned() -> None:
    occupancy = full_of("2x8", {0: (0,)})
    assert start(occupancy, 1, 4) == {1: (4, 5, 6, 7)}
    assert start(occupancy, 2, 4) == {2: (8, 9, 10, 11)}


def test_an_unaligned_node_is_better_than_a_move() -> None:
    occupancy = full_of("1x8", {0: (0,), 1: (4,)})
    assert start(occupancy, 2, 4) == {2: (2, 3, 6, 7)}


def test_wide_jobs_take_whole_nodes() -> None:
    occupancy = full_of("4x8", {0: (8,)})
    assert start(occupancy, 1, 16) == {1: (*range(8), *range(16, 24))}


def test_odd_widths_take_the_tightest_node() -> None:
    occupancy = full_of("1x8+1x6+1x4", {})
    assert start(occupancy, 0, 6) == {0: tuple(range(8, 14))}
    assert start(occupancy, 1, 3) == {1: (14, 15, 16)}
    assert start(occupancy, 2, 9) == {2: (*range(8), 17)}


def test_shrinking_keeps_an_aligned_part() -> None:
    occupancy = full_of("2x8", {0: tuple(range(16))})
    for width in (8, 4, 2, 1):
        assert resize(occupancy, 0, width) == {0: tuple(range(width))}


def test_shrinking_gives_back_the_larger_of_two_nodes_when_the_smaller_suffices() -> None:
    occupancy = full_of("2x8", {0: (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15)})
    assert resize(occupancy, 0, 4) == {0: (0, 1, 2, 3)}


def test_growing_takes_the_buddy() -> None:
    occupancy = full_of("1x8", {0: (4, 5)})
    assert resize(occupancy, 0, 4) == {0: (4, 5, 6, 7)}


def test_growing_stays_in_its_node_when_the_buddy_is_taken() -> None:
    occupancy = full_of("2x8", {0: (4, 5), 1: (6, 7)})
    assert resize(occupancy, 0, 4) == {0: (0, 1, 4, 5)}


def test_growing_moves_when_its_node_is_full() -> None:
    occupancy = full_of("2x4", {0: (0, 1), 1: (2, 3)})
    assert resize(occupancy, 0, 4) == {0: (4, 5, 6, 7)}


def test_growing_over_nodes_keeps_the_first() -> None:
    occupancy = full_of("3x4", {0: (4, 5), 1: (0,)})
    assert resize(occupancy, 0, 8) == {0: (4, 5, 6, 7, 8, 9, 10, 11)}


def test_a_spilled_job_comes_together_when_resized() -> None:
    occupancy = full_of("3x4", {0: (0, 4, 8)})
    assert resize(occupancy, 0, 2) == {0: (0, 1)}


def test_bystanders_stay_while_there_is_room() -> None:
    occupancy = full_of("4x8", {key: (8 * key, 8 * key + 1) for key in range(3)})
    changed = Buddy().place(occupancy, [Ask(10, 8), Ask(11, 4), Ask(12, 4), Ask(13, 2)])
    assert changed.keys() == {10, 11, 12, 13}


def test_the_cheapest_eviction_is_chosen() -> None:
    """Node 0 would cost a job of two, node 1 a job of one, node 2 cannot help: its jobs are too wide."""
    occupancy = full_of("3x4", {0: (0, 1), 1: (4,), 2: (8, 9, 10, 11)})
    changed = start(occupancy, 9, 4)
    assert changed == {1: (2,), 9: (4, 5, 6, 7)}


def test_equal_evictions_move_fewer_jobs() -> None:
    occupancy = full_of("2x4", {0: (0,), 1: (1,), 2: (4, 5)})
    assert start(occupancy, 9, 4) == {2: (2, 3), 9: (4, 5, 6, 7)}


def test_only_as_many_leave_as_must() -> None:
    occupancy = full_of("3x8", {key: (key,) for key in range(6)})
    occupancy.take(6, range(8, 14))
    occupancy.take(7, range(16, 22))
    assert start(occupancy, 9, 4) == {9: (0, 1, 6, 7), 0: (14,), 1: (15,)}


def test_whole_nodes_are_emptied_where_least_moves() -> None:
    occupancy = full_of("4x4", {0: (0, 1, 2), 1: (4,), 2: (8,), 3: (12, 13)})
    changed = start(occupancy, 9, 8)
    assert changed[9] == tuple(range(4, 12))
    assert changed == {9: changed[9], 1: (3,), 2: (14,)}


def test_making_room_may_cascade_to_narrower_jobs() -> None:
    occupancy = full_of("3x4", {0: (0, 1), 1: (4, 5), 2: (6,), 3: (8, 9), 4: (10,)})
    changed = start(occupancy, 9, 4)
    assert occupancy.free == 0
    assert all(occupancy.nodes_of(key) == 1 for key in sorted(occupancy.keys()))
    assert changed.keys() - {9} <= {0, 1, 2, 3, 4}


def test_an_ask_that_makes_room_is_placed_once_at_its_new_width() -> None:
    occupancy = full_of("2x4", {0: (0,), 1: (4, 5)})
    changed = Buddy().place(occupancy, [Ask(9, 4), Ask(0, 2, (0,))])
    assert changed == {9: (0, 1, 2, 3), 0: (6, 7)}


def test_a_job_spills_where_nobody_narrower_can_leave() -> None:
    occupancy = full_of("2x4", {0: (0, 1, 2), 1: (4, 5, 6)})
    assert start(occupancy, 9, 2) == {9: (3, 7)}


POWERS = st.sampled_from([1, 2, 4, 8, 16, 32])


@settings(max_examples=150, deadline=None)
@given(
    nodes=st.integers(1, 8),
    per_node=st.sampled_from([1, 2, 4, 8]),
    steps=st.lists(st.lists(st.tuples(st.integers(0, 11), st.one_of(st.just(0), POWERS)), max_size=5), max_size=20),
)
def test_powers_of_two_are_always_compact(nodes: int, per_node: int, steps: list[list[tuple[int, int]]]) -> None:
    """On equal nodes of a power of two, whatever fits by count spans as few nodes as it can."""
    occupancy = Occupancy(Cluster.parse(f"{nodes}x{per_node}"), "gpu")
    for step in steps:
        asks: dict[int, Ask] = {}
        room = occupancy.free
        for key, width in step:
            if width == 0 and key not in asks:
                room += occupancy.width(key)
                occupancy.release(key)
            elif key not in asks and width <= room + occupancy.width(key):
                asks[key] = Ask(key, width, occupancy.devices(key))
                room -= width - occupancy.width(key)
        Buddy().place(occupancy, list(asks.values()))
        occupancy.validate()
        for key in sorted(occupancy.keys()):
            assert occupancy.nodes_of(key) == fewest_nodes(occupancy.width(key), per_node)


@settings(max_examples=60, deadline=None)
@given(widths=st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=40), leave=st.randoms(use_true_random=False))
def test_nobody_moves_while_some_node_has_room(widths: list[int], leave: Random) -> None:
    occupancy = Occupancy(Cluster.parse("6x8"), "gpu")
    for key, width in enumerate(widths):
        while occupancy.free < width:
            occupancy.release(leave.choice(occupancy.keys()))
        enough = bool((occupancy.free_per_node >= width).any())
        changed = start(occupancy, key, width)
        assert not enough or changed.keys() == {key}


@given(shapes=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), max_size=7), missing=st.integers(0, 12))
def test_who_leaves_is_the_best_of_all_choices(shapes: list[tuple[int, int]], missing: int) -> None:
    """Against brute force, with gangs that have other devices elsewhere."""
    jobs = [_Job(key, here + elsewhere, here) for key, (here, elsewhere) in enumerate(shapes)]
    subsets = [subset for size in range(len(jobs) + 1) for subset in combinations(jobs, size)]
    costs = [sum(job.width for job in subset) for subset in subsets if sum(job.here for job in subset) >= missing]
    leaving = _cheapest_to_leave(sorted(jobs, key=lambda job: -job.width), missing)
    if leaving is None:
        assert not costs
    else:
        assert leaving.moved == min(costs) == sum(jobs[key].width for key in leaving.keys)
        assert sum(jobs[key].here for key in leaving.keys) >= missing
