"""Whole or not at all, whoever reads, crashes or writes at the same time."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.tools import (
    atomic_directory,
    atomic_file,
    open_regular,
    parse_json,
    read_regular,
    remove_tree,
    write_atomically,
)
from tests.tools.deep import nested


def test_text_and_bytes_replace_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    assert write_atomically(target, "größer") == 8
    assert target.read_text(encoding="utf-8") == "größer"
    assert write_atomically(target, b"\x00\x01", durable=True) == 2
    assert target.read_bytes() == b"\x00\x01"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_keeps_the_old_content_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    target.write_text("old")
    with pytest.raises(TypeError), atomic_file(target) as file:
        file.writelines([b"half", "not bytes"])  # type: ignore[list-item]
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_reader_never_meets_half_a_file(tmp_path: Path) -> None:
    target = tmp_path / "big"
    versions = [bytes([value]) * 300_000 for value in range(40)]
    write_atomically(target, versions[0])
    writer = threading.Thread(target=lambda: [write_atomically(target, version) for version in versions])
    writer.start()
    seen = []
    while writer.is_alive():
        seen.append(target.read_bytes())
    writer.join()
    assert all(content in versions for content in [*seen, target.read_bytes()])


def test_a_killed_writer_leaves_the_old_content(tmp_path: Path) -> None:
    target = tmp_path / "state"
    target.write_text("old")
    script = (
        "import os, sys; from pathlib import Path; from penstock.tools import atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as file:\n"
        "    file.write(b'new'); file.flush(); os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(target)], check=False).returncode == 9
    assert target.read_text() == "old"
    (left,) = set(tmp_path.iterdir()) - {target}
    assert left.name.startswith(".state.")
    assert left.suffix == ".partial"


def test_writers_at_the_same_time_do_not_share_a_draft(tmp_path: Path) -> None:
    target = tmp_path / "state"
    contents = [str(number) * 50_000 for number in range(8)]
    writers = [threading.Thread(target=write_atomically, args=(target, content)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert target.read_text() in contents
    assert list(tmp_path.iterdir()) == [target]


def test_a_secret_is_never_readable_by_others(tmp_path: Path) -> None:
    target = tmp_path / "token"
    with atomic_file(target, mode=0o600) as file:
        (draft,) = tmp_path.iterdir()
        assert stat.S_IMODE(draft.stat().st_mode) == 0o600
        file.write(b"secret")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_durable_flushes_the_file_before_the_rename_and_the_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def watched(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        real(handle)

    monkeypatch.setattr(os, "fsync", watched)
    write_atomically(tmp_path / "cache", "lost without harm")
    assert synced == []
    write_atomically(tmp_path / "manifest", "must stay", durable=True)
    assert len(synced) == 2
    assert synced[0].startswith(".manifest.")
    assert synced[1] == tmp_path.name


def test_a_folder_appears_filled_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "study"
    with pytest.raises(IsADirectoryError), atomic_directory(target) as folder:
        folder.write_text("x")
    assert list(tmp_path.iterdir()) == []
    with atomic_directory(target) as folder:
        (folder / "rows.csv").write_text("x")
        assert not target.exists()
    assert [path.name for path in target.iterdir()] == ["rows.csv"]


def test_what_is_no_regular_file_is_not_opened_and_never_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "file", 4, 2) == b"2345"
    assert read_regular(tmp_path / "link", 4, follow=True) == b"0123"
    for name in ("pipe", "link", "absent"):
        with pytest.raises(OSError, match=r"regular|symbolic|No such"):
            open_regular(tmp_path / name)
    for other in (tmp_path, Path("/dev/null")):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(other)


def test_a_directory_goes_however_deep_it_is_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    top = tmp_path / "top"
    nested(top, 1200)
    (top / "link").symlink_to(tmp_path / "kept")
    os.mkfifo(top / "d" / "pipe")
    remove_tree(top)
    assert os.listdir(tmp_path) == ["kept"]
    assert os.listdir(tmp_path / "kept") == ["file"]
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        remove_tree(tmp_path / "kept" / "file")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        "[" * 101 + "]" * 101,
        '{"a":' * 101 + "1" + "}" * 101,
        "9" * 5000,
        "[1",
        b"\xff\xff",
        "1" * 50_000,
    ],
)
def test_json_that_is_too_deep_or_too_long_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"levels|at most|JSON|digits|Expecting|decode|delimiter"):
        parse_json(text, 40_000 if text == "1" * 50_000 else 1 << 20)


def test_json_within_the_bounds_is_read() -> None:
    assert parse_json("3", 10) == 3
    assert parse_json(b'{"a": [1, {"b": []}]}', 100) == {"a": [1, {"b": []}]}
    parse_json("[" * 100 + "]" * 100, 1000)
