"""The caching allocator's rules on small sequences that can be followed by hand."""

from penstock.predict.capture.allocator import CachingAllocator

MB = 1 << 20


def held(*events: tuple[int, int]) -> int:
    allocator = CachingAllocator()
    allocator.follow(events)
    return allocator.reserved


def test_small_ones_share_a_segment_and_large_ones_have_their_own() -> None:
    assert held((1, 512), (2, MB)) == 2 * MB
    assert held((1, MB), (2, MB), (3, 512)) == 4 * MB
    assert held((1, 5 * MB), (2, 5 * MB)) == 20 * MB
    assert held((1, 11 * MB)) == 12 * MB


def test_what_was_let_go_is_used_again_if_it_is_large_enough() -> None:
    assert held((1, 12 * MB), (1, 0), (2, 12 * MB)) == 12 * MB
    assert held((1, 12 * MB), (1, 0), (2, 14 * MB)) == 26 * MB


def test_neighbours_that_are_free_are_joined() -> None:
    apart = [(1, 40 * MB), (1, 0), (2, 20 * MB), (3, 20 * MB), (2, 0), (3, 0), (4, 40 * MB)]
    assert held(*apart) == 40 * MB


def test_unknown_ones_that_go_change_nothing() -> None:
    assert held((7, 0)) == 0
