"""The pretraining recipe on the GPU at hand: ``PYTHONPATH=src python -m bench.pretrain_gpu [SIZE]``.

Needs PyTorch and NumPy, nothing else. Packs made-up tokens, trains some steps of a model (``1b`` unless named) plain,
compiled and with recomputation, and prints tokens per second, MFU, the share of time spent waiting for data and peak
memory; then how fast the loader alone fills the device.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from penstock.data import TokenDataset, TokenWriter

VOCABULARY, SEQUENCE, STEPS = 32_000, 2048, 14
ROOT = Path(__file__).resolve().parent.parent
WAYS = {"plain": [], "recomputed": ["--recompute"], "compiled": ["--compile"]}


def main() -> None:
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device here: nothing was measured")
        return
    size = sys.argv[1] if len(sys.argv) > 1 else "1b"
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, model {size}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "corpus"
        pack(place)
        for name, words in WAYS.items():
            print(f"  {name:22} {trained(place, Path(folder) / name, size, words)}", flush=True)
        print(f"  {'the loader alone':22} {loaded(place)}", flush=True)


def pack(place: Path, documents: int = 30_000) -> None:
    draw = np.random.default_rng(0)
    with TokenWriter(place, vocabulary=VOCABULARY) as writer:
        for _ in range(documents):
            writer.add(draw.integers(0, VOCABULARY, draw.integers(200, 2500)))


def trained(place: Path, out: Path, size: str, words: list[str]) -> str:
    """The mean of the steps behind the first lines of the log, which compile and warm up."""
    command = [sys.executable, str(ROOT / "examples" / "pretrain.py"), "--data", str(place), "--size", size]
    shape = ["--sequence", str(SEQUENCE), "--batch", "16", "--micro-batch", "8", "--steps", str(STEPS), "--warmup", "5"]
    told = ["--log-every", "2", "--metrics", "csv", "--out", str(out)]
    done = subprocess.run([*command, *shape, *told, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1]}"
    rows = [line.split(",") for line in (out / "metrics.csv").read_text().splitlines()[1:]]
    late = [(metric, float(value)) for step, metric, value in rows if int(step) > STEPS // 2]
    means = {name: np.mean([value for metric, value in late if metric == name]) for name, _ in late}
    return (
        f"{means['tokens_per_s']:9,.0f} tokens/s, MFU {means['mfu']:.1%}, input stall {means['input_stall']:.3%}, "
        f"{means['memory_gb']:.0f} GB, loss {means['loss']:.2f}"
    )


def loaded(place: Path) -> str:
    import torch

    from penstock.data import TokenLoader

    loader = TokenLoader(TokenDataset(place, sequence=SEQUENCE), global_batch=16, device="cuda")
    batches = iter(loader)
    next(batches)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(500):
        next(batches)
    torch.cuda.synchronize()
    rate = 500 * 16 * SEQUENCE / (time.perf_counter() - began)
    loader.close()
    return f"{rate / 1e6:,.0f} M tokens/s to the device"


if __name__ == "__main__":
    main()
