"""Event files of TensorBoard: our reader and writer, and bytes that TensorBoard's own have written."""

import math
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tools import Scalar, read_scalars, scalar_record, version_record
from penstock.tools.event_files import LARGEST_RECORD, crc32c, record
from tests.tools import needs


def test_the_checksum_is_the_known_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


def test_scalars_are_read_back() -> None:
    data = (
        version_record(1.5) + scalar_record(Scalar("val/acc", 300, 2.5, 0.5)) + scalar_record(Scalar("x", 0, 3.0, -2.0))
    )
    assert read_scalars(data) == ([Scalar("val/acc", 300, 2.5, 0.5), Scalar("x", 0, 3.0, -2.0)], len(data))


def test_a_record_that_is_being_written_waits() -> None:
    first, second = scalar_record(Scalar("a", 1, 1.0, 1.0)), scalar_record(Scalar("a", 2, 2.0, 2.0))
    for cut in range(len(second)):
        scalars, read = read_scalars(first + second[:cut])
        assert ([scalar.step for scalar in scalars], read) == ([1], len(first))


def test_large_records_are_skipped_without_being_read() -> None:
    large, small = record(bytes(LARGEST_RECORD + 1)), scalar_record(Scalar("a", 1, 1.0, 1.0))
    assert read_scalars(large[:50]) == ([], len(large))
    assert [scalar.step for scalar in read_scalars(large + small)[0]] == [1]


@pytest.mark.parametrize(("kind", "layout", "listed"), [(1, "<f", 5), (2, "<d", 6)])
@pytest.mark.parametrize("as_content", [True, False])
def test_scalars_that_are_tensors(kind: int, layout: str, listed: int, as_content: bool) -> None:
    content = struct.pack(layout, 0.75)
    number = 4 if as_content else listed
    tensor = bytes([1 << 3, kind, number << 3 | 2, len(content)]) + content
    value = b"\x0a\x01t" + bytes([8 << 3 | 2, len(tensor)]) + tensor
    summary = bytes([0x0A, len(value)]) + value
    event = b"\x10\x07" + bytes([5 << 3 | 2, len(summary)]) + summary
    assert read_scalars(record(event))[0] == [Scalar("t", 7, 0.0, 0.75)]


def test_what_is_no_event_file() -> None:
    with pytest.raises(ValueError, match="no record begins at byte"):
        read_scalars(b"a picture of a cat, or whatever")
    assert read_scalars(record(b"\xff" * 40))[0] == []


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    assert isinstance(read_scalars(record(data))[0], list)


@given(st.floats(width=32), st.integers(0, 2**62), st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_scalar_comes_back(value: float, step: int, tag: str) -> None:
    ((found,), _) = read_scalars(scalar_record(Scalar(tag, step, 1.0, value)))
    assert (found.tag, found.step) == (tag, step)
    assert found.value == value or math.isnan(value)


def test_values_beyond_32_bits_are_infinite() -> None:
    assert read_scalars(scalar_record(Scalar("a", 1, 1.0, -1e300)))[0][0].value == -math.inf


def test_tensorboard_reads_what_we_write_and_we_read_what_it_writes(tmp_path: pytest.TempPathFactory) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader", reason=needs.TRACKERS)
    path = str(tmp_path / "events.out.tfevents.1.host.1.0")  # type: ignore[operator]
    wanted = [Scalar("val/acc", step, 1e9 + step, step / 4) for step in range(100)]
    with open(path, "wb") as file:
        file.write(version_record(1e9) + b"".join(map(scalar_record, wanted)))
    events = list(loader.RawEventFileLoader(path).Load())
    assert len(events) == 101
    event_pb2 = sys.modules["tensorboard.compat.proto.event_pb2"]
    parsed = [event_pb2.Event.FromString(event) for event in events]
    assert parsed[0].file_version == "brain.Event:2"
    found = [Scalar(e.summary.value[0].tag, e.step, e.wall_time, e.summary.value[0].simple_value) for e in parsed[1:]]
    assert found == wanted
    theirs = b"".join(record(event.SerializeToString()) for event in parsed)
    assert read_scalars(theirs)[0] == wanted
