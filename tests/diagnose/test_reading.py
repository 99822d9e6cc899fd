"""Logs of any size and shape: nothing is lost at the borders of windows, nothing crashes, memory is bounded."""

import gzip
import io
import itertools
import json
import random
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import InputError
from penstock.diagnose import Doctor, LogSource, log_sources, text_source
from penstock.diagnose.logs.gram_filter import GramFilter
from penstock.diagnose.logs.lines import read_line
from penstock.diagnose.logs.seen_lines import SeenLines
from penstock.diagnose.logs.windows import AFTER, CHUNK, WindowReader

DOCTOR = Doctor.shipped()
OOM = b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"


def test_literals_are_found_at_every_alignment_and_in_any_case() -> None:
    sieve = GramFilter(["Connection reset", "fallen off the bus"])
    for shift in range(9):
        buffer = b"." * shift + b"NVRM: gpu has FALLEN off the Bus" + b"." * 9
        assert {literal for _, literal in sieve.hits(buffer)} == {b"fallen off the bus"}


@given(st.binary(max_size=400), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_whatever_surrounds_a_literal_it_is_found(noise: bytes, shift: int) -> None:
    sieve = GramFilter(["no space left on device"])
    buffer = noise + b" " * shift + b"No space left on device" + noise
    assert b"no space left on device" in {literal for _, literal in sieve.hits(buffer)}


@pytest.mark.parametrize("place", [0, 1, CHUNK - AFTER - 30, CHUNK - AFTER, CHUNK - 10, CHUNK, CHUNK + 3, 2 * CHUNK])
def test_a_line_at_the_border_of_a_window_is_seen_once(place: int) -> None:
    filler = (b"iteration 12 | loss 2.3 | tokens/s 99\n" * (place // 38 + 1))[: max(0, place - 1)]
    log = filler + (b"\n" if place else b"") + OOM + b"\n" + b"iteration 13 | loss 2.2\n" * 3_000
    reader = WindowReader(DOCTOR._filter)
    found = [one for one in reader.candidates(io.BytesIO(log)) if OOM in one.raw]
    assert len(found) == 1
    assert found[0].number == log[: log.index(OOM)].count(b"\n") + 1


def test_a_line_without_an_end_and_progress_bars_are_lines_too() -> None:
    bars = b"\r".join(b"%d%%|###   | %d/100 [00:01<00:02]" % (n, n) for n in range(100))
    assert DOCTOR.diagnose([text_source(bars + b"\r" + OOM)]).category == "mem.gpu_oom"
    assert DOCTOR.diagnose([text_source(b"x" * 3_000_000 + OOM + b"y" * 3_000_000)]).category == "mem.gpu_oom"


@given(st.binary(max_size=3_000))
@settings(max_examples=150, deadline=None)
def test_random_bytes_never_crash_it(noise: bytes) -> None:
    DOCTOR.diagnose([text_source(noise)])


@given(
    st.lists(st.sampled_from([one.example for one in DOCTOR.catalogue.signatures.values()]), max_size=12), st.randoms()
)
@settings(max_examples=60, deadline=None)
def test_shuffled_and_cut_lines_never_crash_it(lines: list[str], chance: random.Random) -> None:
    text = "\n".join(line[chance.randrange(len(line)) :] for line in lines)
    found = DOCTOR.diagnose([text_source(text)])
    assert 0.0 <= found.confidence <= 1.0
    assert len(found.evidence) <= 5


def test_a_flood_of_one_line_is_bounded() -> None:
    flood = b"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64, reducing to 32\n" * 20_000
    found = DOCTOR.diagnose([text_source(flood + OOM)])
    assert found.category == "mem.gpu_oom"


class _Endless(io.RawIOBase):
    """So many bytes of metrics, made as they are read, with a failure near the end."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._told = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._left <= 0:
            if self._told:
                return b""
            self._told = True
            return b"\n" + OOM + b"\n"
        self._left -= size
        return (b"iteration 12 | lm loss: 2.3 | grad norm: 0.3 | tokens/s 99\n" * (size // 59 + 1))[:size]


def test_memory_does_not_grow_with_the_log() -> None:
    import tracemalloc

    tracemalloc.start()
    found = DOCTOR.diagnose([LogSource(name="big", open=lambda: _Endless(48 << 20))])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.category == "mem.gpu_oom"
    assert peak < 40 << 20


@pytest.mark.parametrize(
    ("raw", "rank", "node", "text"),
    [
        ("[rank3]: ValueError: x", 3, "", "ValueError: x"),
        ("[1,5]<stderr>:ValueError: x", 5, "", "ValueError: x"),
        ("[default2]:ValueError: x", 2, "", "ValueError: x"),
        ("7: ValueError: x", 7, "", "ValueError: x"),
        ("[4] ValueError: x", 4, "", "ValueError: x"),
        ("worker-1: ValueError: x", None, "worker-1", "ValueError: x"),
        ("(train pid=12, ip=10.0.0.7) ValueError: x", None, "10.0.0.7", "ValueError: x"),
        ("2024-01-02 03:04:05,678 [rank1]: ValueError: x", 1, "", "ValueError: x"),
        ("\x1b[31m[rank1]: ValueError: x\x1b[0m", 1, "", "ValueError: x"),
        ("ValueError: x", None, "", "ValueError: x"),
        ("oss2.exceptions.ServerError: x", None, "", "oss2.exceptions.ServerError: x"),
        ("libcuda.so.1: cannot open", None, "", "libcuda.so.1: cannot open"),
        ("nfs4_reclaim_open_state: failed", None, "", "nfs4_reclaim_open_state: failed"),
    ],
)
def test_prefixes_of_launchers_are_taken_off(raw: str, rank: int | None, node: str, text: str) -> None:
    line = read_line(raw)
    assert (line.rank, line.node, line.text) == (rank, node, text)


def test_files_directories_and_compressed_logs_are_read(tmp_path: Path) -> None:
    (tmp_path / "rank-0.log").write_text("fine\n")
    with gzip.open(tmp_path / "rank-1.log.gz", "wb") as file:
        file.write(OOM)
    (tmp_path / "model.bin").write_bytes(b"\0\1\2" + OOM)
    found = DOCTOR.diagnose(log_sources([str(tmp_path)]))
    assert (found.category, found.culprit.rank) == ("mem.gpu_oom", 1)
    with pytest.raises(InputError, match="no such file"):
        log_sources([str(tmp_path / "nothing")])


_TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/work/train.py", line 12, in <module>',
    "    main()",
    '  File "/work/train.py", line 7, in main',
    '    rate = config["lr"]',
    "KeyError: 'lr'",
)


@pytest.mark.parametrize(
    "before",
    [
        "trainer-1  | ",
        "[pod/train-worker-0/pytorch] ",
        "2026-05-01T12:00:00.123456789Z stderr F ",
        "train-worker-0 pytorch ",
        "stderr: ",
        "Mar 24 09:53:55 cn110 python[3551]: ",
        "(RayTrainWorker(rank=3) pid=4321, ip=10.0.0.2) ",
        "\x1b[36m(RayTrainWorker pid=4321)\x1b[0m ",
        "3: ",
        "  3: ",
        "[1,3]<stderr>:",
        "[prterun-host-1@1,3]<stderr>: ",
        "[1,mpirank:3,algo-1]<stderr>:",
        "Wed May  1 12:00:00 2026[3]<stderr>:",
        "[default3]:[rank3]: ",
        "worker-1: ",
        "10.0.0.2: ",
        "2026-05-01 12:00:00,123 - ERROR - ",
        "2026-05-01 12:00:00.123 | ERROR    | __main__:main:12 - ",
        "> ",
        "\t",
        "E   ",
    ],
)
def test_a_traceback_is_read_whatever_a_collector_writes_before_its_lines(before: str) -> None:
    found = DOCTOR.diagnose([text_source("\n".join(before + line for line in _TRACEBACK))])
    assert found.cause == "the script failed with KeyError: 'lr' at /work/train.py:7"
    assert found.confidence == 0.9


def test_the_time_before_the_lines_of_a_traceback_goes_on() -> None:
    log = "\n".join(f"[2026-05-01 12:00:0{n}] [ERROR] app: {line}" for n, line in enumerate(_TRACEBACK))
    assert "train.py:7" in DOCTOR.diagnose([text_source(log)]).cause


def test_tracebacks_of_two_containers_that_write_over_each_other_are_kept_apart() -> None:
    other = [line.replace("train.py", "serve.py").replace("'lr'", "'port'") for line in _TRACEBACK]
    both = (f"a  | {one}\nb  | {two}" for one, two in zip(other, _TRACEBACK, strict=True))
    assert "KeyError: 'port' at /work/serve.py:7" in DOCTOR.diagnose([text_source("\n".join(both))]).cause


@pytest.mark.parametrize(
    "log",
    [
        "\n".join(json.dumps({"log": line + "\n", "stream": "stderr"}) for line in _TRACEBACK),
        json.dumps({"level": "error", "msg": "failed", "exc_info": "\n".join(_TRACEBACK)}),
        "worker failed: b'" + "\\n".join(_TRACEBACK) + "'",
    ],
    ids=["a line each", "in one value", "escaped"],
)
def test_a_traceback_is_read_out_of_json_and_escapes(log: str) -> None:
    assert "KeyError: 'lr'" in DOCTOR.diagnose([text_source(log)]).cause


def test_a_traceback_in_a_box_has_its_frames() -> None:
    log = """
╭─────────────────────────────── Traceback (most recent call last) ────────────────────────────────╮
│ /work/train.py:7 in main                                                                         │
│                                                                                                  │
│ ❱ 7 │   rate = config["lr"]                                                                      │
╰──────────────────────────────────────────────────────────────────────────────────────────────────╯
KeyError: 'lr'
"""
    assert DOCTOR.diagnose([text_source(log)]).cause == "the script failed with KeyError: 'lr' at /work/train.py:7"


def test_a_line_that_comes_over_and_over_hides_none_that_differs_in_a_number_that_counts() -> None:
    """The hundredth Xid of an application says nothing new; the one of a lost GPU behind it does."""
    harmless = "NVRM: Xid (PCI:0000:07:00): 13, pid=1234, Graphics Exception\n" * 500
    lost = "NVRM: Xid (PCI:0000:07:00): 79, pid=1234, GPU has fallen off the bus.\n"
    assert Doctor.shipped().diagnose([text_source(harmless + lost)]).category == "hw.gpu_lost"
    counted = "".join(f"step {step}: exitcode: 1 of worker {step}\n" for step in range(500))
    assert Doctor.shipped().diagnose([text_source(counted + "worker 7: exitcode: -11\n")]).category == "proc.segv"


def test_lines_are_remembered_up_to_a_bound_and_read_beyond_it() -> None:
    seen = SeenLines()
    words = [f"{a}{b}{c}{d}".encode() for a, b, c, d in itertools.product(string.ascii_lowercase[:11], repeat=4)]
    assert not any(seen.repeat(b"line " + word) for word in words)
    assert len(seen._shapes) == 10_000 < len(words)
    assert [seen.repeat(b"line " + words[0]) for _ in range(101)][-2:] == [True, True]
    assert not any(seen.repeat(b"line " + words[-1]) for _ in range(300))
    for number, counts in ((b"123", True), (b"1234", False)):
        seen = SeenLines()
        assert [seen.repeat(b"rank 7") for _ in range(200)][-1]
        assert seen.repeat(b"rank " + number) is not counts, "a short number that is new is news, a long one is not"
