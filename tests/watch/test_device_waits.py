"""What a device waits is taken from marks on its computing stream, here those of a device that is played."""

from dataclasses import dataclass, field

from penstock.runtime.watch.device_waits import WAITING, DeviceWaits


@dataclass
class Stream:
    """A computing stream: where it has come to, in milliseconds, and how far it has really been carried out."""

    now: float = 0.0
    done: float = float("inf")
    made: list["Mark"] = field(default_factory=list)

    def mark(self) -> "Mark":
        self.made.append(Mark(self))
        return self.made[-1]


@dataclass
class Mark:
    stream: Stream
    at: float = 0.0

    def record(self) -> None:
        self.at = self.stream.now

    def query(self) -> bool:
        return self.at <= self.stream.done

    def elapsed_time(self, later: "Mark") -> float:
        return later.at - self.at


class Group:
    """Stands where a group of parameters of FSDP2 does; its stream waits so long in each method."""

    def __init__(self, stream: Stream, waits: dict[str, float]) -> None:
        self._stream, self._waits = stream, waits

    def wait_for_unshard(self) -> str:
        self._stream.now += self._waits["wait_for_unshard"]
        return "whole"

    def post_backward(self) -> None:
        self._stream.now += self._waits["post_backward"]

    def finalize_backward(self) -> None:
        self._stream.now += self._waits["finalize_backward"]


def step(stream: Stream, group: Group, compute_ms: float) -> None:
    assert group.wait_for_unshard() == "whole"
    stream.now += compute_ms
    group.post_backward()
    group.finalize_backward()


def test_only_what_is_waited_for_counts_and_marks_are_used_again() -> None:
    stream = Stream()
    group, waits = (
        Group(stream, {"wait_for_unshard": 5.0, "post_backward": 2.0, "finalize_backward": 1.0}),
        DeviceWaits(stream.mark),
    )
    waits.watch(group)
    for compute_ms in (10.0, 1000.0):
        step(stream, group, compute_ms)
        assert waits.settle() == 0.008
    assert len(stream.made) == 2 * len(WAITING)


def test_what_the_device_has_not_done_yet_does_not_count() -> None:
    stream = Stream()
    group, waits = Group(stream, dict.fromkeys(WAITING, 1.0)), DeviceWaits(stream.mark)
    waits.watch(group)
    step(stream, group, 0.0)
    stream.done = 2.0
    assert waits.settle() == 0.002


def test_a_step_that_is_forgotten_leaves_nothing() -> None:
    stream = Stream()
    group, waits = Group(stream, dict.fromkeys(WAITING, 1.0)), DeviceWaits(stream.mark)
    waits.watch(group)
    step(stream, group, 0.0)
    waits.clear()
    assert waits.settle() == 0.0


def test_a_group_without_one_of_the_methods_is_watched_in_the_others() -> None:
    class Older:
        def wait_for_unshard(self) -> None:
            stream.now += 4.0

    stream = Stream()
    waits, group = DeviceWaits(stream.mark), Older()
    waits.watch(group)
    group.wait_for_unshard()
    assert waits.settle() == 0.004
