"""Packed tokens beside JSON lines and a bare memory map, on this machine: ``python -m bench.loader``.

Rates are tokens per second of *processor time* of one process, warm cache, best of a few rounds, so that what else the
machine does counts little; the wall clock is used where waiting is the question. Its parts, by name:

* ``documents``: random documents: JSON lines with offsets, a flat memory map with offsets, ours;
* ``batches``: shuffled batches of tokens and labels from one shard and from 10,000;
* ``cold``: an epoch after the page cache was told to forget, in stored, windowed and fully random order;
* ``resume``: how long until the first batch in the middle of an epoch, at another number of ranks, bit by bit the same;
* ``latency``: waits of a loop of 50 steps a second with four batches ahead, beside a thread that reads nothing;
* ``packing``: waste and cut documents;
* ``memory``: what a data set of 10^9 documents needs;
* ``recipe``: the share of time that examples/pretrain.py waits for data.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.data import DataManifest, TokenDataset, TokenWriter, open_tokens, pack
from penstock.runtime.data.reading.prefetch import Prefetch
from penstock.runtime.data.reading.read_ahead import ReadAhead

SEQUENCE, BATCH, VOCABULARY = 2048, 8, 50_000
DOCUMENTS, ROUNDS = 4000, 5
MANY = 10_000
_STALL_S = 1e-3
Numbers = NDArray[np.int64]


def main() -> None:
    wanted = sys.argv[1:] or list(PARTS)
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            print(f"\n{name}: {(PARTS[name].__doc__ or '').splitlines()[0]}", flush=True)
            PARTS[name](Path(folder))


def rate(read: Callable[[], int], rounds: int = ROUNDS) -> float:
    """Tokens per second of processor time, the best of some rounds after one that warms up."""
    best = 0.0
    for number in range(rounds + 1):
        began = time.process_time()
        tokens = read()
        best = max(best, tokens / (time.process_time() - began)) if number else best
    return best


def table(rows: dict[str, float], baseline: str) -> None:
    for name, found in rows.items():
        print(f"  {name:44} {found / 1e6:8.1f} M tokens/s  {found / rows[baseline]:6.2f} x {baseline}", flush=True)


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
    rows = {
        "JSON lines with offsets": rate(lambda: sum(len(lines.document(number)) for number in order), 2),
        "bare memory map": rate(lambda: sum(len(flat.document(number)) for number in order)),
        "ours, checksums compared": rate(lambda: sum(len(ours(number)) for number in order)),
    }
    table(rows, "JSON lines with offsets")


def batches(folder: Path) -> None:
    """shuffled batches of 8 x 2,048 tokens with their labels; 10,000 shards are one of 256 KiB under many names."""
    given = texts()
    flat, lines = FlatMap(folder / "flat", given), JsonLines(folder / "text.jsonl", given)
    one, many = packed(folder / "one", given), many_shards(folder)
    order = TokenDataset(one, sequence=SEQUENCE).order(0).stretch(0, 0, sum(map(len, given)) // SEQUENCE)
    rows = {
        "JSON lines, concatenated": rate(lambda: _concatenated(lines, len(given)), 1),
        "bare memory map": rate(lambda: _batches(flat.batch, order)),
    }
    for name, place in (("one shard", one), (f"{MANY:,} shards", many)):
        for words, options, is_shuffled in (
            ("in stored order", {"boundaries": False}, False), ("shuffled", {"boundaries": False}, True),
            ("shuffled, documents marked", {}, True), ("shuffled, best fit", {"pack": "best_fit"}, True),
        ):  # fmt: skip
            dataset = TokenDataset(place, sequence=SEQUENCE, **options)
            rows[f"ours, {name}, {words}"] = rate(_epochs(dataset, len(order), is_shuffled))
    table(rows, "bare memory map")


def _epochs(dataset: TokenDataset, samples: int, is_shuffled: bool) -> Callable[[], int]:
    """Reads another stretch of an epoch every time."""
    starts = itertools.cycle(range(0, len(dataset) - samples + 1, samples))

    def read() -> int:
        start = next(starts)
        stop = start + samples
        return _batches(
            dataset.read, dataset.order(0).stretch(0, start, stop) if is_shuffled else np.arange(start, stop)
        )

    return read


def many_shards(folder: Path) -> Path:
    """Ten thousand names of a shard of 256 KiB."""
    place = folder / "many"
    if not place.exists():
        base = packed(folder / "base", texts(80), shard_bytes=2**18)
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
    """an epoch of 128 MiB that is not in the page cache, by the wall clock, one thread but for reading ahead."""
    place = packed(folder / "cold", [np.arange(2**20) % VOCABULARY for _ in range(64)], shard_bytes=2**26)
    dataset = TokenDataset(place, sequence=SEQUENCE, boundaries=False, verify=False)
    windowed = dataset.order(0)
    ahead = ReadAhead(dataset, windowed)

    def read_ahead(chosen: Numbers) -> Any:
        ahead.move_to(0, next(positions))
        return dataset.read(chosen)

    ways: dict[str, tuple[Callable[[Numbers], Any], Numbers]] = {
        "in stored order": (dataset.read, np.arange(len(dataset))),
        "windowed, read ahead": (read_ahead, windowed.stretch(0, 0, len(dataset))),
        "fully random": (dataset.read, np.random.default_rng(0).permutation(len(dataset))),
    }
    for name, (read, order) in ways.items():
        _forget(place)
        positions = itertools.count(0, BATCH)
        began = time.perf_counter()
        _batches(read, order)
        print(f"  {name:24} {128 / (time.perf_counter() - began):8.0f} MiB/s", flush=True)
    ahead.close()


def _forget(place: Path) -> None:
    for path in place.glob("*.tok"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resume(folder: Path) -> None:
    """from the state of a loader of 3 ranks to the first batch of one of 5, new objects throughout."""
    from penstock.runtime.training.token_loader import TokenLoader

    for name, place in (("one shard", packed(folder / "one", texts())), (f"{MANY:,} shards", many_shards(folder))):
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
    """waits at 50 steps a second, four batches ahead, after the first; and for a thread that hands over a number."""
    from penstock.runtime.training.token_loader import TokenLoader

    place = packed(folder / "one", texts())
    loader = TokenLoader(TokenDataset(place, sequence=SEQUENCE, pack="best_fit"), global_batch=BATCH, prefetch=4)
    batches, trivial = iter(loader), Prefetch[int](len, depth=4)
    trivial.follow(itertools.repeat((0,)))
    takers: dict[str, Callable[[], object]] = {"ours": lambda: next(batches), "a number": lambda: trivial.take((0,))}
    waits: dict[str, list[float]] = {name: [] for name in takers}
    for _ in range(1001):
        for name, take in takers.items():
            began = time.perf_counter()
            take()
            waits[name].append(time.perf_counter() - began)
            time.sleep(0.01)
    for name, found in waits.items():
        p50, p99, p999 = (1e6 * wait for wait in np.quantile(found[1:], (0.5, 0.99, 0.999)))
        late = sum(wait > _STALL_S for wait in found[1:])
        print(
            f"  {name:10} p50 {p50:6.0f}, p99 {p99:6.0f}, p99.9 {p999:6.0f} µs, {late} of 1,000 above 1 ms", flush=True
        )
    loader.close()
    trivial.close()


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
    words = ["--data", str(folder / "docs"), "--size", "tiny", "--sequence", "256", "--batch", "8", "--steps", "100"]
    told = ["--metrics", "csv", "--out", str(folder / "recipe")]
    script = root / "examples" / "pretrain.py"
    subprocess.run([sys.executable, str(script), *words, *told], check=True, capture_output=True)
    found = dict(_metrics(folder / "recipe" / "metrics.csv"))
    mean, worst = np.mean(found["input_stall"]), max(found["input_stall"])
    print(f"  mean {mean:.3%}, worst ten steps {worst:.3%}, {np.mean(found['tokens_per_s']):,.0f} tokens/s", flush=True)


def _metrics(path: Path) -> Iterator[tuple[str, list[float]]]:
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    for name in {row[1] for row in rows}:
        yield name, [float(value) for _, metric, value in rows if metric == name]


PARTS: dict[str, Callable[[Path], None]] = {
    "documents": documents, "batches": batches, "cold": cold, "resume": resume, "latency": latency,
    "packing": packing, "memory": memory, "recipe": recipe,
}  # fmt: skip

if __name__ == "__main__":
    main()
