"""Event files of a run: found, followed, and nobody else's."""

import os
from pathlib import Path

from penstock.backends.agent.metrics import event_file_watch
from penstock.backends.agent.metrics.event_file_watch import EventFileWatch
from penstock.tools import Scalar, scalar_record, version_record


def write(path: Path, *pairs: tuple[int, float], tag: str = "acc") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(scalar_record(Scalar(tag, step, 1.0, value)) for step, value in pairs))


def said(watch: EventFileWatch) -> list[tuple[str, int | None, float]]:
    return [(metric.name, metric.step, metric.value) for metric in watch.news()]


def test_files_are_followed_from_when_the_agent_came(tmp_path: Path) -> None:
    earlier = tmp_path / "old" / "events.out.tfevents.1.host.7.0"
    write(earlier, (1, 0.5))
    watch = EventFileWatch([tmp_path])
    assert said(watch) == []
    now = tmp_path / "out" / "runs" / "v1" / "events.out.tfevents.2.host.8.0"
    now.parent.mkdir(parents=True)
    now.write_bytes(version_record(1.0))
    write(now, (1, 0.25), (2, 0.5))
    assert said(watch) == [("acc", 1, 0.25), ("acc", 2, 0.5)]
    assert said(watch) == []
    write(now, (3, 0.75), tag="val acc")
    write(earlier, (9, 9.0), tag="late")
    assert sorted(said(watch)) == [("late", 9, 9.0), ("val_acc", 3, 0.75)]


def test_the_newest_file_of_a_tag_counts(tmp_path: Path) -> None:
    watch = EventFileWatch([tmp_path])
    first, second = (tmp_path / f"run{number}" / f"events.out.tfevents.{number}.host.8.0" for number in (1, 2))
    write(first, (1, 1.0))
    assert said(watch) == [("acc", 1, 1.0)]
    write(second, (1, 2.0))
    write(first, (2, 1.0))
    assert ("acc", 1, 2.0) in said(watch)
    write(first, (3, 1.0))
    write(second, (2, 2.0))
    assert said(watch) == [("acc", 2, 2.0)]


def test_in_a_directory_of_many_only_files_of_its_own_processes_count(tmp_path: Path) -> None:
    watch = EventFileWatch([], shared=[tmp_path / "runs"])
    watch.expect(4711)
    write(tmp_path / "runs" / "a" / "events.out.tfevents.1700000000.host.name.4711.0", (1, 1.0))
    write(tmp_path / "runs" / "b" / "events.out.tfevents.1700000001.host.name.4712.0", (1, 2.0), tag="other")
    assert said(watch) == [("acc", 1, 1.0)]


def test_links_pipes_pictures_and_depths_are_passed_over(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside / "events.out.tfevents.1.host.1.0", (1, 1.0))
    inside = tmp_path / "inside"
    inside.mkdir()
    watch = EventFileWatch([inside, tmp_path / "nowhere"])
    (inside / "linked").symlink_to(outside)
    (inside / "events.out.tfevents.2.host.1.0").symlink_to(outside / "events.out.tfevents.1.host.1.0")
    os.mkfifo(inside / "events.out.tfevents.3.host.1.0")
    (inside / "events.out.tfevents.4.host.1.0").write_bytes(b"no event file at all, but long enough")
    write(inside.joinpath(*"abcdefgh", "events.out.tfevents.5.host.1.0"), (1, 1.0))
    assert said(watch) == []
    assert said(watch) == []


def test_a_flood_of_files_is_bounded(tmp_path: Path) -> None:
    watch = EventFileWatch([tmp_path])
    for number in range(event_file_watch.MOST_FILES + 20):
        write(tmp_path / f"events.out.tfevents.{number:03}.host.1.0", (1, 1.0), tag=f"tag{number}")
    assert len(said(watch)) == event_file_watch.MOST_FILES
