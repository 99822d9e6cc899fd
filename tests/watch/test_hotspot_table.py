"""Every moment of a profiled step belongs to one part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.watch.hotspot_table import INPUT, WINDOW, ProfileEvent, outermost, time_parts

MS = 1_000_000


def event(name: str, start_ms: float, end_ms: float, thread: int = 1, *, on_device: bool = False) -> ProfileEvent:
    return ProfileEvent(name, int(start_ms * MS), int(end_ms * MS), thread, on_device)


def test_on_a_cpu_input_comes_first_and_communication_counts_where_nothing_hides_it() -> None:
    found = time_parts(
        [
            event(WINDOW, 0, 100),
            event(INPUT, 0, 10), event("aten::index", 2, 8),
            event("aten::linear", 20, 50), event("aten::addmm", 25, 45),
            event("gloo:all_reduce", 40, 70, thread=2),
            event("aten::add_", 80, 90), event("aten::add_", 90, 200),
        ],
        steps=1,
    )  # fmt: skip
    assert (found.whole, found.input, found.kernels) == pytest.approx((0.1, 0.01, 0.05))
    assert (found.communication, found.host) == pytest.approx((0.02, 0.02))
    assert [(one.name, one.calls) for one in found.operators] == [
        ("aten::add_", 2.0), ("aten::linear", 1.0), ("aten::index", 1.0),
    ]  # fmt: skip


def test_on_a_gpu_kernels_come_first_and_the_host_is_what_is_left() -> None:
    found = time_parts(
        [
            event(WINDOW, 0, 100), event(WINDOW, 0, 100, on_device=True), event(INPUT, 0, 20),
            event("aten::linear", 0, 90),
            event("sm90_gemm", 10, 40, thread=7, on_device=True),
            event("ncclDevKernel_AllReduce", 30, 60, thread=9, on_device=True),
        ],
        steps=2,
    )  # fmt: skip
    assert (found.kernels, found.communication, found.input, found.host) == pytest.approx((0.03, 0.02, 0.01, 0.04))
    assert [(one.name, one.calls) for one in found.operators] == [("sm90_gemm", 0.5)]
    assert found.operators[0].seconds == pytest.approx(0.015)


def test_a_profile_without_its_mark_says_nothing() -> None:
    assert time_parts([event("aten::linear", 0, 5)], steps=1).whole == 0.0


_spans = st.tuples(st.integers(0, 200), st.integers(0, 50)).map(lambda span: (span[0], span[0] + span[1]))
_events = st.builds(
    lambda name, span, thread, on_device: event(name, *span, thread, on_device=on_device),
    st.sampled_from([INPUT, "aten::mm", "aten::add", "gloo:broadcast", "nccl:all_reduce", "somebody's own"]),
    _spans, st.integers(1, 3), st.booleans(),
)  # fmt: skip


@given(st.lists(_events, max_size=40), st.integers(1, 5))
def test_the_parts_are_never_more_than_the_whole(events: list[ProfileEvent], steps: int) -> None:
    found = time_parts([event(WINDOW, 50, 150), *events], steps)
    parts = (found.input, found.kernels, found.communication, found.host)
    assert all(part >= 0.0 for part in parts)
    assert sum(parts) == pytest.approx(found.whole) == 0.1


def test_an_operator_that_another_holds_is_not_counted_twice() -> None:
    events = [
        event("aten::linear", 0, 10),
        event("aten::addmm", 1, 9),
        event("aten::mm", 10, 12),
        event("aten::t", 3, 5, 2),
    ]
    assert [one.name for one in outermost(events)] == ["aten::linear", "aten::t", "aten::mm"]
