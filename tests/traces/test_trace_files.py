"""Files that are missing, broken or not what they seem."""

import gzip
from pathlib import Path

import pytest

from penstock.core import TraceError
from penstock.simulate.traces import read_trace

CSV = "id,submitted,duration\na,0,60\nb,5,60\n"


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"there is no file .*gone\.csv"):
        read_trace(tmp_path / "gone.csv")


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is a directory"):
        read_trace(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\n\n  \n"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl"])
def test_an_empty_file(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(TraceError, match="is empty"):
        read_trace(path)


def test_an_empty_file_called_gz(tmp_path: Path) -> None:
    (tmp_path / "t.gz").touch()
    with pytest.raises(TraceError, match="is empty"):
        read_trace(tmp_path / "t.gz")


def test_a_header_without_jobs(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,submitted,duration\n")
    with pytest.raises(TraceError, match="holds no job"):
        read_trace(tmp_path / "t.csv")


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv"])
def test_gzip_is_recognised_by_content(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(CSV.encode()))
    assert len(read_trace(tmp_path / name)) == 2


def test_a_truncated_gzip(tmp_path: Path) -> None:
    rows = "".join(f"job-{n},{n},60\n" for n in range(5000))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"id,submitted,duration\n" + rows.encode())[:-2000])
    with pytest.raises(TraceError, match=r"damaged gzip file after line \d+.*download it again"):
        read_trace(tmp_path / "t.csv.gz")


@pytest.mark.parametrize("where", [2, 10, -6], ids=["method", "block", "checksum"])
def test_a_corrupt_gzip(tmp_path: Path, where: int) -> None:
    packed = bytearray(gzip.compress(CSV.encode()))
    packed[where] ^= 0xFF
    (tmp_path / "t.csv.gz").write_bytes(bytes(packed))
    with pytest.raises(TraceError, match="damaged gzip"):
        read_trace(tmp_path / "t.csv.gz")


def test_plain_text_called_gz(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_text(CSV)
    with pytest.raises(TraceError, match="damaged gzip"):
        read_trace(tmp_path / "t.csv.gz")


def test_text_that_is_not_utf8_names_line_and_byte(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"id,submitted,duration\nj\xe9,0,60\n")
    with pytest.raises(TraceError, match="line 2, byte 23: not UTF-8"):
        read_trace(tmp_path / "t.csv")


def test_a_byte_order_mark_is_not_part_of_the_first_column(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + CSV.encode())
    assert len(read_trace(tmp_path / "t.csv")) == 2


def test_windows_line_ends_and_blank_lines(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(CSV.replace("\n", "\r\n\r\n").encode())
    assert [job.id for job in read_trace(tmp_path / "t.csv")] == ["a", "b"]


def test_no_newline_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CSV.rstrip())
    assert len(read_trace(tmp_path / "t.csv")) == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("id,submitted,duration\na,0\n", "line 2: 2 cells.*3 cells"),
        ("id,submitted,duration\na,0,60,7\n", "line 2: 4 cells"),
        ('id,submitted,duration\n"a,0,60\n', "line 2: not CSV"),
        ("id,submitted,duration,id\na,0,60,a\n", "column 'id' twice"),
    ],
)
def test_rows_that_do_not_fit_the_header(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TraceError, match=complaint):
        read_trace(tmp_path / "t.csv")
