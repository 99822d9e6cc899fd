"""Packed tokens beside JSON lines and a bare memory map, on this machine: ``python -m bench.loader``.

Rates are tokens per second of *processor time* of one process, warm cache, best of a few rounds, so that what else the
machine does counts little; the wall clock is used where waiting is the question. Its parts, by name:

* ``documents``: random documents: JSON lines with offsets, a flat memory map with offsets, ours;
* ``batches``: shuffled batches of tokens and labels from one shard and from 10,000;
* ``cold``, ``throttled``: an epoch after the page cache was told to forget, in stored, windowed and fully random order;
* ``resume``: how long until the first batch in the middle of an epoch, at another number of ranks, bit by bit the same;
* ``latency``: waits of a loop of 50 steps a second with four batches ahead, beside loops that read nothing;
* ``packing``: waste and cut documents;
* ``memory``: what a data set of 10^9 documents needs;
* ``recipe``: the share of time that examples/pretrain.py waits for data, from one shard and from 10,000.
"""

import ctypes
import gc
import itertools
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.data import DataManifest, TokenDataset, TokenWriter, open_tokens, pack
from penstock.runtime.data.reading.prefetch import Prefetch

SEQUENCE, BATCH, VOCABULARY = 2048, 8, 50_000
DOCUMENTS, ROUNDS = 4000, 5
MANY = 10_000
WINDOW = 16 * 2**20 // SEQUENCE
_STALL_S = 1e-3
_SOME = np.ones(2048, np.int64)
Numbers = NDArray[np.int64]


def main() -> None:
    wanted = sys.argv[1:] or list(PARTS)
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            print(f"\n{name}: {(PARTS[name].__doc__ or '').splitlines()[0]}", flush=True)
            PARTS[name](Path(folder))


def rates(readers: dict[str, Callable[[], int]], rounds: int = ROUNDS) -> dict[str, float]:
    """Tokens per second of processor time, in turn, the best of some rounds after one that warms up."""
    best = dict.fromkeys(readers, 0.0)
    for number in range(rounds + 1):
        for name, read in readers.items():
            began = time.process_time()
            tokens = read()
            best[name] = max(best[name], tokens / (time.process_time() - began)) if number else 0.0
    return best


def table(rows: dict[str, float], baseline: str) -> None:
    for name, found in rows.items():
        print(f"  {name:52} {found / 1e6:8.1f} M tokens/s  {found / rows[baseline]:6.2f} x {baseline}", flush=True)


# --- the corpus in three forms ----------------------------------------------------------------------------------------


def texts(count: int = DOCUMENTS) -> list[Numbers]:
    draw = np.random.default_rng(0)
    return [draw.integers(0, VOCABULARY, draw.integers(200, 3001)) for _ in range(count)]


def packed(place: Path, given: list[Numbers], shard_bytes: int = 2**30) -> Path:
    if not (place / "manifest.json").exists():
        with TokenWriter(place, vocabulary=VOCABULARY, shard_bytes=shard_bytes) as writer:
            for text in given:
                writer.add(text)
    return place


class JsonLines:
    """``{"tokens": […]}`` in each line, found by its offset, as InternEvo's loader has it."""

    def __init__(self, path: Path, given: list[Numbers]) -> None:
        if not path.exists():
            path.write_text("".join(json.dumps({"tokens": text.tolist()}) + "\n" for text in given))
        content = path.read_bytes()
        ends = np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\n"))
        self.offsets = [0, *(ends[:-1] + 1).tolist()]
        self._file = path.open("rb")

    def document(self, number: int) -> Numbers:
        self._file.seek(self.offsets[number])
        return np.array(json.loads(self._file.readline())["tokens"], dtype=np.int64)


class FlatMap:
    """The same tokens in one file of 16-bit numbers, mapped; places of documents in memory."""

    def __init__(self, path: Path, given: list[Numbers]) -> None:
        np.concatenate(given).astype("<u2").tofile(path)
        self.tokens = np.memmap(path, "<u2", "r")
        self.borders = np.cumsum([0, *(len(text) for text in given)]).tolist()

    def document(self, number: int) -> Numbers:
        return np.asarray(self.tokens[self.borders[number] : self.borders[number + 1]]).astype(np.int64)

    def batch(self, samples: Numbers) -> tuple[Numbers, Numbers]:
        starts = [int(sample) * SEQUENCE for sample in samples]
        x = np.stack([self.tokens[start : start + SEQUENCE].astype(np.int64) for start in starts])
        y = np.stack([self.tokens[start + 1 : start + 1 + SEQUENCE].astype(np.int64) for start in starts])
        return x, y


# --- parts ------------------------------------------------------------------------------------------------------------


def documents(folder: Path) -> None:
    """random documents of 200 to 3,000 tokens as 64-bit numbers."""
    from penstock.runtime.data.reading.token_stream import TokenStream

    given = texts()
    lines, flat = JsonLines(folder / "text.jsonl", given), FlatMap(folder / "flat", given)
    stream = TokenStream(open_tokens(packed(folder / "one", given)))
    borders = [*stream.borders(0, len(stream)), len(stream)]
    order = np.random.default_rng(1).permutation(len(given)).tolist()

    def ours(number: int) -> Numbers:
        return stream.stretch(borders[number], borders[number + 1]).astype(np.int64)

    assert all(np.array_equal(ours(number), lines.document(number)) for number in order[:50])
    readers: dict[str, Callable[[int], Numbers]] = {
        "JSON lines with offsets": lines.document, "bare memory map": flat.document, "ours, checksums compared": ours
    }  # fmt: skip
    table(rates({name: partial(_documents, read, order) for name, read in readers.items()}), "JSON lines with offsets")


def _documents(read: Callable[[int], Numbers], order: list[int]) -> int:
    return sum(len(read(number)) for number in order)


def batches(folder: Path) -> None:
    """shuffled batches of 8 x 2,048 tokens with their labels; 10,000 shards are one file under many names."""
    given = texts()
    flat, lines = FlatMap(folder / "flat", given), JsonLines(folder / "text.jsonl", given)
    places = {
        "one shard": packed(folder / "one", given), f"{MANY:,} of 2 MiB": many_shards(folder, 2**21),
        f"{MANY:,} of 256 KiB": many_shards(folder, 2**18),
    }  # fmt: skip
    order = (
        TokenDataset(places["one shard"], sequence=SEQUENCE).order(0).stretch(0, 0, sum(map(len, given)) // SEQUENCE)
    )
    readers: dict[str, Callable[[], int]] = {
        "JSON lines, concatenated": lambda: _concatenated(lines, len(given)),
        "bare memory map": lambda: _batches(flat.batch, order),
    }
    for name, place in places.items():
        for words, options, is_shuffled in (
            ("in stored order", {"boundaries": False}, False), ("shuffled", {"boundaries": False}, True),
            ("shuffled, documents marked", {}, True), ("shuffled, best fit", {"pack": "best_fit"}, True),
        ):  # fmt: skip
            dataset = TokenDataset(place, sequence=SEQUENCE, **options)
            readers[f"ours, {name}, {words}"] = _epochs(dataset, max(len(order), WINDOW), is_shuffled)
    table(rates(readers), "bare memory map")


def _epochs(dataset: TokenDataset, samples: int, is_shuffled: bool) -> Callable[[], int]:
    """Reads another stretch of an epoch every time, long enough that every shard of a window is opened in it."""
    samples = min(samples, len(dataset))
    starts = itertools.cycle(range(0, len(dataset) - samples + 1, samples))

    def read() -> int:
        start = next(starts)
        stop = start + samples
        return _batches(
            dataset.read, dataset.order(0).stretch(0, start, stop) if is_shuffled else np.arange(start, stop)
        )

    return read


def many_shards(folder: Path, size: int) -> Path:
    """Ten thousand names of a shard of about this size."""
    place = folder / f"many-{size}"
    if not place.exists():
        base = packed(folder / f"base-{size}", texts(size // 3200 + 1), shard_bytes=size)
        name_again(open_tokens(base).manifest, base, place)
    return place


def _batches(read: Callable[[Numbers], Any], order: Numbers) -> int:
    for start in range(0, len(order) - BATCH + 1, BATCH):
        read(order[start : start + BATCH])
    return len(order) // BATCH * BATCH * SEQUENCE


def _concatenated(lines: JsonLines, count: int) -> int:
    """Shuffled documents, one behind the other, cut into samples."""
    order, rest, tokens = np.random.default_rng(1).permutation(count), np.zeros(0, dtype=np.int64), 0
    for number in order:
        rest = np.concatenate((rest, lines.document(int(number))))
        while len(rest) > BATCH * SEQUENCE:
            x = rest[: BATCH * SEQUENCE].reshape(BATCH, SEQUENCE).copy()
            y = rest[1 : BATCH * SEQUENCE + 1].reshape(BATCH, SEQUENCE).copy()
            tokens += min(x.size, y.size)
            rest = rest[BATCH * SEQUENCE :]
    return tokens


def cold(folder: Path) -> None:
    """an epoch of 256 MiB that is not in the page cache, by the wall clock, four batches ahead; the best of 5."""
    place = packed(folder / "cold", [np.arange(2**20) % VOCABULARY for _ in range(128)], shard_bytes=2**26)
    _compare_cold(place)


def throttled(folder: Path) -> None:
    """the same of 128 MiB from a disk that is held to 100 MiB/s (needs root and control groups of version 1)."""
    place = packed(folder / "throttled", [np.arange(2**20) % VOCABULARY for _ in range(64)], shard_bytes=2**26)
    group = Path("/sys/fs/cgroup/blkio") / f"penstock-bench-{os.getpid()}"
    device = place.stat().st_dev
    try:
        group.mkdir()
    except OSError as problem:
        print(f"  not here: {problem}")
        return
    try:
        limit = f"{os.major(device)}:{os.minor(device)} {100 * 2**20}"
        (group / "blkio.throttle.read_bps_device").write_text(limit)
        (group / "cgroup.procs").write_text(str(os.getpid()))
        _compare_cold(place, rounds=2)
    finally:
        (group.parent / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def _compare_cold(place: Path, rounds: int = 5) -> None:
    ways: dict[str, Callable[[Path], None]] = {
        "the files alone, nothing done with them": _read_files,
        "ours, in stored order": partial(_one_epoch, shuffle=False),
        "ours, shuffled": partial(_one_epoch, shuffle=True),
        "ours, fully random, nothing read ahead": _read_randomly,
    }
    best = dict.fromkeys(ways, 0.0)
    mebibytes = sum(path.stat().st_size for path in place.glob("*.tok")) / 2**20
    for _, (name, read) in itertools.product(range(rounds), ways.items()):
        _forget(place)
        began = time.perf_counter()
        read(place)
        best[name] = max(best[name], mebibytes / (time.perf_counter() - began))
    for name, found in best.items():
        print(
            f"  {name:42} {found:8.0f} MiB/s  {found / best['ours, in stored order']:6.2f} x stored order", flush=True
        )


def _read_files(place: Path) -> None:
    buffer = bytearray(2**20)
    for path in sorted(place.glob("*.tok")):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _one_epoch(place: Path, *, shuffle: bool) -> None:
    from penstock.runtime.training.token_loader import TokenLoader

    dataset = TokenDataset(place, sequence=SEQUENCE, boundaries=False)
    loader = TokenLoader(dataset, global_batch=BATCH, shuffle=shuffle)
    for _ in itertools.islice(loader, len(dataset) // BATCH):
        pass
    loader.close()


def _read_randomly(place: Path) -> None:
    dataset = TokenDataset(place, sequence=SEQUENCE, boundaries=False, verify=False)
    _batches(dataset.read, np.random.default_rng(0).permutation(len(dataset)))


def _forget(place: Path) -> None:
    """Drop files from the page cache, and make sure of it: pages that somebody maps or still writes stay."""
    gc.collect()
    for path in place.glob("*.tok"):
        with path.open("rb") as file:
            for _ in range(100):
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                if (left := _resident_share(file.fileno())) < 0.01:
                    break
                time.sleep(0.1)
        assert left < 0.01, f"{left:.0%} of {path} is still in memory"


def _resident_share(file: int) -> float:
    with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as content:
        pages = np.zeros(-(-len(content) // mmap.PAGESIZE), np.uint8)
        address = np.frombuffer(content, np.uint8).ctypes.data
        ctypes.CDLL(None).mincore(
            ctypes.c_void_p(address), ctypes.c_size_t(len(content)), pages.ctypes.data_as(ctypes.c_void_p)
        )
        return float((pages & 1).mean())


def resume(folder: Path) -> None:
    """from the state of a loader of 3 ranks to the first batch of one of 5, new objects throughout."""
    from penstock.runtime.training.token_loader import TokenLoader

    for name, place in (
        ("one shard", packed(folder / "one", texts())),
        (f"{MANY:,} shards", many_shards(folder, 2**18)),
    ):
        loader = TokenLoader(TokenDataset(place, sequence=SEQUENCE), global_batch=15, rank=1, size=3)
        state = loader.state_dict() | {"step": 150}
        loader.close()
        began = time.perf_counter()
        later = TokenLoader(TokenDataset(place, sequence=SEQUENCE), global_batch=15, rank=4, size=5)
        later.load_state_dict(state)
        first = next(iter(later))
        took = time.perf_counter() - began
        later.close()
        whole = TokenLoader(TokenDataset(place, sequence=SEQUENCE), global_batch=15)
        reference = next(batch for step, batch in enumerate(whole) if step == 150)
        whole.close()
        same = bool((reference.tokens[12:] == first.tokens).all() and (reference.labels[12:] == first.labels).all())
        print(f"  {name:16} {1e3 * took:7.1f} ms, the same batch as without a change: {same}", flush=True)


def latency(folder: Path) -> None:
    """waits at 50 steps a second, four batches ahead, and what the machine adds to a loop that waits for nothing."""
    from penstock.runtime.training.token_loader import TokenLoader

    place = packed(folder / "long", texts(24_000), shard_bytes=2**25)
    loader = TokenLoader(TokenDataset(place, sequence=SEQUENCE, pack="best_fit"), global_batch=BATCH, prefetch=4)
    batches, trivial = iter(loader), Prefetch[int](len, depth=4)
    trivial.follow(itertools.repeat((0,)))
    takers: dict[str, Callable[[], object]] = {
        "ours": lambda: next(batches), "a number from such a thread": lambda: trivial.take((0,)),
        "nothing: 200 µs of arithmetic": _arithmetic,
    }  # fmt: skip
    waits: dict[str, list[float]] = {name: [] for name in takers}
    for _ in range(1001):
        for name, take in takers.items():
            began = time.perf_counter()
            take()
            waits[name].append(time.perf_counter() - began)
            time.sleep(0.02 / len(takers))
    for name, found in waits.items():
        p50, p99, p999 = (1e6 * wait for wait in np.quantile(found[1:], (0.5, 0.99, 0.999)))
        late = sum(wait > _STALL_S for wait in found[1:])
        print(
            f"  {name:30} p50 {p50:5.0f}, p99 {p99:6.0f}, p99.9 {p999:6.0f} µs, {late} of 1,000 above 1 ms", flush=True
        )
    loader.close()
    trivial.close()


def _arithmetic() -> None:
    """About as long as taking a batch lasts on a processor that has just been woken."""
    for _ in range(40):
        np.cumsum(_SOME)


def packing(folder: Path) -> None:
    """waste and cut documents, of 20,000 of 1 to 1,500 tokens in samples of 2,048."""
    draw = np.random.default_rng(0)
    given = [np.full(draw.integers(1, 1501), number) for number in range(20_000)]
    total = sum(map(len, given))
    rows, free = 0, 0
    for text in given:
        if len(text) > free:
            rows, free = rows + 1, SEQUENCE
        free -= len(text)
    print(f"  whole documents one behind the other, padded: {1 - total / (rows * SEQUENCE):6.2%} waste, 0 cut")
    for packing_name in ("concat", "best_fit"):
        dataset = TokenDataset(packed(folder / "short", given), sequence=SEQUENCE, pack=packing_name)
        samples_with = np.zeros(len(given), dtype=np.int64)
        for index in range(len(dataset)):
            samples_with[np.unique(dataset[index].tokens)] += 1
        waste, cut = 1 - len(dataset) * SEQUENCE / total, np.mean(samples_with > 1)
        print(f"  ours, {packing_name:9}: {waste:6.2%} waste, {cut:6.2%} of documents cut", flush=True)


_OWN_MEMORY = """
from pathlib import Path
from penstock.data import TokenDataset

def own():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))

before = own()
dataset = TokenDataset({place!r}, sequence={sequence})
order = dataset.order(0)
for start in range(0, 40_000, 8):
    dataset.read(order.stretch(0, start, start + 8))
assert dataset.manifest.documents == 10**9
print(f"  10^9 documents, 5,000 batches: {{own() - before:.1f}} MiB of memory of its own")
"""


def memory(folder: Path) -> None:
    """10,000 shards with 100,000 documents each (one shard under many names), read in shuffled batches."""
    base, place = folder / "small", folder / "billion"
    with TokenWriter(base, vocabulary=VOCABULARY) as writer:
        writer.extend(np.random.default_rng(0).integers(0, VOCABULARY, 800_000), np.full(100_000, 8))
    name_again(open_tokens(base).manifest, base, place)
    code = _OWN_MEMORY.format(place=str(place), sequence=SEQUENCE)
    print(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout, end="")
    print(f"  a permutation of all documents would take {8 * 10**9 / 2**20:,.0f} MiB (computed)", flush=True)


def name_again(manifest: DataManifest, base: Path, place: Path) -> None:
    """The same shard ten thousand times."""
    from penstock.runtime.data.storage.data_manifest import shard_rows, shards_from_rows

    place.mkdir()
    row = shard_rows(manifest.shards)[0]
    rows = [[f"shard-{number:05d}", *row[1:]] for number in range(MANY)]
    for name, *_ in rows:
        for suffix in (".tok", ".idx"):
            (place / f"{name}{suffix}").hardlink_to(base / f"shard-00000{suffix}")
    whole = DataManifest(token_bytes=manifest.token_bytes, tokenizer=manifest.tokenizer, shards=shards_from_rows(rows))
    (place / "manifest.json").write_text(whole.to_text())


def recipe(folder: Path) -> None:
    """examples/pretrain.py, tiny, on one processor core: input stall as a share of the time of each ten steps."""
    root = Path(__file__).resolve().parent.parent
    pack([root / "docs"], folder / "docs")
    many = many_shards(folder, 2**18)
    for name, place, packing_name in (
        ("one shard", folder / "docs", "concat"), (f"{MANY:,} shards of 256 KiB", many, "concat"),
        (f"{MANY:,} shards of 256 KiB, best fit", many, "best_fit"),
    ):  # fmt: skip
        out = folder / f"recipe-{place.name}-{packing_name}"
        words = ["--data", str(place), "--pack", packing_name, "--size", "tiny", "--sequence", "256", "--batch", "8"]
        told = ["--steps", "100", "--metrics", "csv", "--out", str(out)]
        script = root / "examples" / "pretrain.py"
        subprocess.run([sys.executable, str(script), *words, *told], check=True, capture_output=True)
        found = dict(_metrics(out / "metrics.csv"))
        mean, worst = np.mean(found["input_stall"]), max(found["input_stall"])
        rate = np.mean(found["tokens_per_s"])
        print(f"  {name:34} mean {mean:.3%}, worst ten steps {worst:.3%}, {rate:,.0f} tokens/s", flush=True)


def _metrics(path: Path) -> Iterator[tuple[str, list[float]]]:
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    for name in {row[1] for row in rows}:
        yield name, [float(value) for _, metric, value in rows if metric == name]


PARTS: dict[str, Callable[[Path], None]] = {
    "documents": documents, "batches": batches, "cold": cold, "throttled": throttled, "resume": resume,
    "latency": latency, "packing": packing, "memory": memory, "recipe": recipe,
}  # fmt: skip

if __name__ == "__main__":
    main()
