"""Published runs that were typed in before the model was asked about them: what is a prediction worth unseen?

`python -m bench.held_out` predicts the runs of `runs.csv` as `penstock plan --evaluate` would: as eager PyTorch, with
fused kernels, or with tensor parallelism behind products, whichever the source says. `--look 1` takes the runs that
were looked at first, and changed the model; `--look 2` those that were kept for a second, single look; `--precision
fp8` those in fp8. `--parts` shows where the time goes. Runs on which assumptions were settled are in `bench.published`.
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

from bench.held_out.models import cluster_of, family_of
from bench.published import FLASH_2, Run, parts, summary
from penstock.parallel import Trainer
from penstock.parallel.planning.trainer_kernels import EAGER_PRODUCTS
from penstock.parallel.planning.uniform_plans import Recompute

FLASH_1 = 0.5
"""Of FlashAttention-2's rate (Dao, 2023: "about twice as fast"), which came after most of llm-foundry's runs."""
GIB_OF_A_GB = 2**30 / 1e9
"""Data sheets of these devices say GB and mean GiB."""
USER_BUFFERS = ("NeMo 24.09", "Megatron-Bridge")
"""Sources whose configurations let the collectives of tensor parallelism run behind products."""
RUNS = Path(__file__).with_name("runs.csv")
SOURCES = {
    "llm-foundry": "mosaicml/llm-foundry (commit 8c8dd48), scripts/train/benchmarking/README.md: MPT under PyTorch's "
                   "FSDP; in bf16 all its rows of 2,048 tokens, in fp8 all rows",
    "fms-fsdp": "foundation-model-stack/fms-fsdp (commit 5a296af), README.md: compiled Llama 2 under FSDP, 4,096 "
                "tokens; 34B and 70B, whose published HFU says that all layers are recomputed",
    "Automodel": "NVIDIA-NeMo/Automodel (commit 36044ad), docs/performance-summary.mdx: bf16, with expert parallelism "
                 "and recomputation from its examples/llm_benchmark",
    "Megatron-Bridge": "NVIDIA-NeMo/Megatron-Bridge (commit 067f987), docs/performance-summary-archive.md: containers "
                       "25.11 to 26.06",
    "NeMo 24.09": "docs.nvidia.com/nemo-framework/user-guide/24.09/performance/performance_summary.html, pre-training "
                  "in fp8 on H100; models from NVIDIA/NeMo-Megatron-Launcher (commit 4550dc9)",
    "torchtitan": "pytorch/torchtitan (commit b5bcd76), benchmarks: rows in float8 without asynchronous tensor "
                  "parallelism",
    "torchtitan on H200": "the same repository, benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md",
}  # fmt: skip


def held_out(precision: str, look: int | None = None) -> Iterator[Run]:
    with RUNS.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["precision"] == precision and look in (None, int(row["look"])):
                yield run_of(row)


def run_of(row: dict[str, str]) -> Run:
    devices, tokens, batch = int(row["devices"]), int(row["tokens"]), int(row["batch"])
    return Run(
        kind=row["source"], name=f"{row['model']} x {tokens} on {devices} {row['cluster']}",
        family=family_of(row["model"], tokens), mesh=cluster_of(row["cluster"], devices), batch=batch,
        seconds=batch * tokens / (float(row["tokens_per_s"]) * devices), tp=int(row["tp"]), pp=int(row["pp"]),
        cp=int(row["cp"]), experts=int(row["ep"]), micro_batch=int(row["micro_batch"]), chunks=int(row["chunks"]),
        zero=int(row["zero"]), recompute=Recompute(row["recompute"]), sequence_parallel=int(row["tp"]) > 1,
        trainer=trainer_of_row(row), attention=FLASH_2 if row["source"].startswith("torchtitan") else 0.0,
    )  # fmt: skip


def trainer_of_row(row: dict[str, str]) -> Trainer:
    """As its source runs it: eager PyTorch with the FlashAttention of its day, fused kernels, or user buffers."""
    plain = Trainer(
        gradient_bytes=float(row["gradient_bytes"]), fp8=row["precision"] == "fp8",
        overlaps_tensors=row["source"] in USER_BUFFERS,
    )  # fmt: skip
    return replace(plain, products=EAGER_PRODUCTS, attention=FLASH_1) if row["source"] == "llm-foundry" else plain


def main() -> None:
    arguments = _arguments()
    errors: dict[str, list[float]] = {}
    full = 0
    for run in held_out(arguments.precision, arguments.look):
        prediction = run.predicted()
        error = prediction.iteration_s / run.seconds - 1
        errors.setdefault(run.kind, []).append(error)
        full += prediction.memory_bytes > GIB_OF_A_GB * run.mesh.chip.memory_bytes
        print(
            f"{run.kind:<20}{run.name:<42}{run.seconds:>9.3f}s{prediction.iteration_s:>9.3f}s{100 * error:>8.1f} %"
            f"{prediction.memory_bytes / 1e9:>6.0f} GB" + (f"  {parts(prediction)}" if arguments.parts else "")
        )
    print()
    for kind, found in errors.items():
        print(summary(kind, found))
    every = [error for found in errors.values() for error in found]
    print(summary("all", every) + f"{100 * median(map(abs, every)):>8.1f} % median")
    print(summary("sources weighing the same", [mean(map(abs, found)) for found in errors.values()]))
    print(f"predicted to need more memory than the device has: {full} of {len(every)}, all of which ran")
    print("\nsources\n" + "\n".join(f"  {kind}: {SOURCES[kind]}" for kind in errors))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--precision", choices=("bf16", "fp8"), default="bf16")
    parser.add_argument("--look", type=int, choices=(1, 2), help="only the runs of the first or the second look")
    parser.add_argument("--parts", action="store_true", help="where the time goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
