"""Metrics as an offline run of Weights & Biases: ``wandb sync DIR/offline-run-…`` uploads it.

The file is a log of records in blocks of 32 KiB, each piece with a CRC-32, its length and its place in the record; each
record is a message of protocol buffers. Written are those that a run needs: header, run, history, summary, exit.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from penstock.tools import bytes_field, flat_texts, varint_field, write_atomically
from penstock.wire import JobDetail, JobMetricsView

_MAGIC = b":W&B\xe1\xbe\x00"
_BLOCK = 32 * 1024
_PIECE = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_PRODUCER, _OLDEST_READER = "penstock", "0.70.0"
_HISTORY, _SUMMARY, _RUN, _EXIT, _HEADER = 2, 3, 17, 18, 21
"""Numbers of the kinds of records."""
_KEY, _NESTED_KEY, _VALUE = 1, 2, 16


def write_wandb(job: JobDetail, metrics: JobMetricsView, directory: Path) -> Path:
    """``offline-run-TIME-ID/run-ID.wandb``."""
    folder = directory / f"offline-run-{job.submitted_at:%Y%m%d_%H%M%S}-{job.id}"
    (folder / "files").mkdir(parents=True, exist_ok=True)
    records = [bytes_field(number, body) for number, body in _bodies(job, metrics)]
    numbered = [varint_field(1, number) + body for number, body in enumerate(records, start=1)]
    write_atomically(folder / f"run-{job.id}.wandb", framed(numbered))
    return folder


def framed(records: Iterable[bytes]) -> bytes:
    """Records as a log: no piece crosses a block, and none begins where its header does not fit."""
    log = bytearray(_MAGIC)
    for record in records:
        rest, begun = record, False
        while True:
            room = _BLOCK - len(log) % _BLOCK
            if room < _PIECE.size:
                log += bytes(room)
                continue
            piece, rest = rest[: room - _PIECE.size], rest[room - _PIECE.size :]
            log += _framed_piece(piece, _place(begun, bool(rest)))
            begun = True
            if not rest:
                break
    return bytes(log)


def _place(begun: bool, goes_on: bool) -> int:
    if begun:
        return _MIDDLE if goes_on else _LAST
    return _FIRST if goes_on else _FULL


def _framed_piece(piece: bytes, place: int) -> bytes:
    return _PIECE.pack(zlib.crc32(piece, zlib.crc32(bytes([place]))), len(piece), place) + piece


def _bodies(job: JobDetail, metrics: JobMetricsView) -> Iterator[tuple[int, bytes]]:
    began = (job.started_at or job.submitted_at).timestamp()
    version = bytes_field(1, _PRODUCER) + bytes_field(2, _OLDEST_READER)
    yield _HEADER, bytes_field(1, version)
    yield _RUN, _run(job, began)
    for step, row in _rows(metrics, began):
        yield _HISTORY, b"".join(_items(row, _NESTED_KEY)) + bytes_field(2, varint_field(1, step))
    last = {metric.name: metric.last for metric in metrics.metrics}
    yield _SUMMARY, b"".join(_items(last, _NESTED_KEY))
    ended = (job.ended_at.timestamp() if job.ended_at else began) - began
    failed = job.state not in ("finished", "finishing", "running")
    yield _EXIT, varint_field(1, int(failed)) + varint_field(2, max(int(ended), 0))


def _run(job: JobDetail, began: float) -> bytes:
    config = b"".join(_items({"_wandb": {}, **flat_texts(job.spec)}, _KEY))
    seconds, nanos = int(began), int(began % 1.0 * 1e9)
    return b"".join([
        bytes_field(1, job.id), bytes_field(3, "penstock"), bytes_field(4, config), bytes_field(8, job.name),
        bytes_field(17, varint_field(1, seconds) + varint_field(2, nanos)),
    ])  # fmt: skip


def _items(values: Mapping[str, object], key: int) -> Iterator[bytes]:
    for name, value in values.items():
        yield bytes_field(1, bytes_field(key, name) + bytes_field(_VALUE, json.dumps(value)))


def _rows(metrics: JobMetricsView, began: float) -> list[tuple[int, dict[str, object]]]:
    """Every step with the metrics that have a value there, in the order of the steps."""
    rows: dict[int, dict[str, object]] = {}
    for metric in metrics.metrics:
        for step, at, value in zip(metric.steps, metric.times, metric.values, strict=True):
            moment = {"_step": step, "_timestamp": at, "_runtime": max(at - began, 0.0)}
            rows.setdefault(step, {}).update({metric.name: value, **moment})
    return sorted(rows.items())
