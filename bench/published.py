"""Runs that others published, predicted: how far off is the planner's cost model where nothing was fitted?

Six kinds of runs, from 1 to 16,384 devices, with their sources. No constant was fitted on any of them: those of the
A100 are from vTrain's single-node measurements (`bench.vtrain`), those of the V100 from Aceso's operator profiles
(`bench.analytic`), an H100 has typical shares of its data sheet. What a source leaves open is assumed as ``ASSUMED``
says; it was settled while the errors were known. `--parts` shows where the time goes.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean

from penstock.core import PipelineSchedule
from penstock.parallel import ChipMesh, Family, Planner, Prediction, PricedMesh, Trainer, family_named, mesh_named
from penstock.parallel.devices import EAGER
from penstock.parallel.families import decoder_only
from penstock.parallel.planning.uniform_plans import Degrees, Recompute, plan_of
from penstock.predict import Precision

TARGET_MEAN, TARGET_WORST = 0.08, 0.20
SOURCES = {
    "SC'21": "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, table 1; micro-batches "
             "and chunks from examples/sc21/run_table_1.sh of Megatron-LM (commit 79a3bb6)",
    "MLSys'23": "Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, tables 3 and 5",
    "MegaScale": "Jiang et al., NSDI'24, table 2, its Megatron-LM baseline (its own runs change the model)",
    "Llama 3": "Grattafiori et al., The Llama 3 Herd of Models, table 4",
    "torchtitan": "benchmarks/llama3_h100_202412 and asyncTP_llama3_h100_2025-06 of torchtitan (commit b5bcd76), its "
                  "rows in bf16",
    "DeepLearningExamples": "NVIDIA DeepLearningExamples (commit 729963d), PyTorch BERT, pre-training in mixed "
                            "precision",
}  # fmt: skip
ASSUMED = (
    "SC'21, MLSys'23, MegaScale, BERT: attention is not fused; gradients are overlapped only by PyTorch's DDP (SC'21)",
    "MegaScale: A100, selective recomputation as in MLSys'23, gradients in fp32; 8 x 200 Gb/s of network, as published",
    "Llama 3: 8 chunks of one layer per stage (126 layers, embedding and head are 16 x 8); optimizer and gradients "
    "sharded",
    "torchtitan: a peak half-way between H100 SXM (989) and NVL (835 TFLOP/s), as its footnote says; products slow "
    "with the cube root of power (500 of 700 W); FlashAttention-2 at 350 TFLOP/s (Shah et al., FlashAttention-3)",
    "BERT: logits of 20 of 128 tokens, as its masked language model predicts them; its norms and GELU are fused, "
    "masks, soft-max, dropout, residuals and transposes are not: 1.6 times the traffic of fused kernels; its runs of "
    "512 tokens are left out, as they hold sequences of all lengths in bins of 64",
)  # fmt: skip
NOT_OVERLAPPED = Trainer(overlaps_gradients=False)
SLOWED = (500 / 700) ** (1 / 3)
GRAND_TETON = 0.5 * (989.4e12 + 835e12) * SLOWED
FLASH_2 = 350e12
BERT_TRAFFIC = 96 / 60
"""Bytes per token and hidden unit of a layer's forward pass between products, at 128 tokens and 16 heads of 64."""
INFINIBAND_200 = 200e9
"""Bytes per second of a node with eight ports of 200 Gb/s."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One published run: the model, the cluster, how it was split, and the seconds of an iteration."""

    kind: str
    name: str
    family: Family
    mesh: ChipMesh
    batch: int
    seconds: float
    tp: int = 1
    pp: int = 1
    cp: int = 1
    experts: int = 1
    micro_batch: int = 1
    chunks: int = 1
    zero: int = 0
    recompute: Recompute = Recompute.NONE
    sequence_parallel: bool = False
    trainer: Trainer = NOT_OVERLAPPED
    attention: float = 0.0
    """FLOP/s of fused attention where they are known."""

    def predicted(self) -> Prediction:
        planner = RunPlanner(
            family=self.family, mesh=self.mesh, batch=self.batch, trainer=self.trainer, sizes=(self.micro_batch,),
            splits=(self.tp,), attention=self.attention,
        )  # fmt: skip
        dp = self.mesh.devices // (self.tp * self.pp * self.cp)
        plan = plan_of(
            Degrees(self.pp, self.tp, dp, self.cp, self.micro_batch), self.family.chain(), self.family, self.batch,
            recompute=self.recompute, zero=self.zero, sequence_parallel=self.sequence_parallel,
        )  # fmt: skip
        assert plan is not None, self.name
        plan = replace(plan, experts=self.experts)
        if self.chunks > 1:
            plan = replace(plan, schedule=PipelineSchedule.INTERLEAVED, interleave=self.chunks)
        return planner.predict(plan)


@dataclass(frozen=True, kw_only=True)
class RunPlanner(Planner):
    """The planner's prices, with attention as fast as it is known to have been."""

    attention: float = 0.0

    @cached_property
    def priced(self) -> PricedMesh:
        usual = self.mesh.priced(self.precision, self.trainer)
        if not self.attention:
            return usual
        share = self.attention / (usual.device.peak * usual.device.compute_share)
        return replace(usual, device=replace(usual.device, attention_share=share))


def gpt(hidden: int, layers: int, heads: int, vocabulary: int = 51200) -> Family:
    return decoder_only(
        f"gpt-{hidden}", hidden=hidden, layers=layers, heads=heads, vocabulary=vocabulary, tokens=2048,
        fused_attention=False,
    )  # fmt: skip


def a100(devices: int) -> ChipMesh:
    return mesh_named(f"{max(1, devices // 8)}x{min(devices, 8)}xA100-80GB")


def sc21() -> Iterator[Run]:
    """TFLOP/s per device count full recomputation: four forward passes of work."""
    table = (  # billions, heads, hidden, layers, tp, pp, devices, batch, micro-batch, chunks, TFLOP/s
        (1.7, 24, 2304, 24, 1, 1, 32, 512, 16, 1, 137), (3.6, 32, 3072, 30, 2, 1, 64, 512, 16, 1, 138),
        (7.5, 32, 4096, 36, 4, 1, 128, 512, 16, 1, 142), (18.4, 48, 6144, 40, 8, 1, 256, 1024, 8, 1, 135),
        (39.1, 64, 8192, 48, 8, 2, 512, 1536, 4, 1, 138), (76.1, 80, 10240, 60, 8, 4, 1024, 1792, 2, 3, 140),
        (145.6, 96, 12288, 80, 8, 8, 1536, 2304, 2, 2, 148), (310.1, 128, 16384, 96, 8, 16, 1920, 2160, 1, 2, 155),
        (529.6, 128, 20480, 105, 8, 35, 2520, 2520, 1, 3, 163), (1008.0, 160, 25600, 128, 8, 64, 3072, 3072, 1, 1, 163),
    )  # fmt: skip
    for size, heads, hidden, layers, tp, pp, devices, batch, micro, chunks, rate in table:
        work = 96 * batch * 2048 * layers * hidden**2 * (1 + 2048 / (6 * hidden) + 51200 / (16 * layers * hidden))
        yield Run(
            kind="SC'21", name=f"GPT {size}B on {devices}", family=gpt(hidden, layers, heads), mesh=a100(devices),
            batch=batch, seconds=work / (rate * 1e12 * devices), tp=tp, pp=pp, micro_batch=micro, chunks=chunks,
            recompute=Recompute.FULL, trainer=Trainer(overlaps_gradients=size < 20),
        )  # fmt: skip


def mlsys23() -> Iterator[Run]:
    table = (  # name, hidden, layers, heads, pp, devices, batch, micro-batch, chunks, seconds: full, selective
        ("22B", 6144, 48, 64, 1, 8, 4, 4, 1, 1.42, 1.10), ("175B", 12288, 96, 96, 8, 64, 64, 1, 3, 18.13, 13.75),
        ("530B", 20480, 105, 128, 35, 280, 280, 1, 3, 49.05, 37.83),
        ("1T", 25600, 128, 160, 64, 512, 512, 1, 1, 94.42, 71.49),
    )  # fmt: skip
    for name, hidden, layers, heads, pp, devices, batch, micro, chunks, full, selective in table:
        plain = Run(
            kind="MLSys'23", name=f"GPT {name} on {devices}, full", family=gpt(hidden, layers, heads),
            mesh=a100(devices), batch=batch, seconds=full, tp=8, pp=pp, micro_batch=micro, chunks=chunks,
            recompute=Recompute.FULL,
        )  # fmt: skip
        yield plain
        yield replace(
            plain, name=f"GPT {name} on {devices}, selective", seconds=selective, recompute=Recompute.SELECTIVE,
            sequence_parallel=True,
        )  # fmt: skip


def megascale() -> Iterator[Run]:
    table = (
        (256, 768, 40.0), (512, 768, 21.2), (768, 768, 15.2), (1024, 768, 11.9), (3072, 6144, 29.02),
        (6144, 6144, 14.78), (8192, 6144, 12.24), (12288, 6144, 8.57),
    )  # fmt: skip
    for devices, batch, seconds in table:
        mesh = a100(devices)
        mesh = replace(mesh, fabric=mesh.fabric.with_rates("8 x 200 Gb/s", between=INFINIBAND_200))
        yield Run(
            kind="MegaScale", name=f"GPT 175B on {devices}", family=gpt(12288, 96, 96, 64000), mesh=mesh, batch=batch,
            seconds=seconds, tp=8, pp=8, chunks=6, zero=1, recompute=Recompute.SELECTIVE, sequence_parallel=True,
            trainer=Trainer(overlaps_gradients=False, gradient_bytes=4.0),
        )  # fmt: skip


def llama3() -> Iterator[Run]:
    """TFLOP/s per device, of products with weights and of causal attention."""
    for devices, seq, cp, rate in ((8192, 8192, 1, 430), (16384, 8192, 1, 400), (16384, 131072, 16, 380)):
        batch = 2048 * 8192 // seq
        work = batch * seq * (6 * 405e9 + 6 * 126 * 16384 * seq)
        yield Run(
            kind="Llama 3", name=f"405B x {seq} on {devices}", family=family_named("llama-405b", seq),
            mesh=mesh_named(f"{devices // 8}x8xH100"), batch=batch, seconds=work / (rate * 1e12 * devices), tp=8, pp=16,
            cp=cp, chunks=8, zero=2, sequence_parallel=True, trainer=Trainer(gradient_bytes=4.0),
        )  # fmt: skip


def torchtitan() -> Iterator[Run]:
    table = (  # model, devices, tp, samples of a replica, compiled, tokens per second and device
        ("llama-8b", 8, 1, 2, False, 5762), ("llama-8b", 8, 1, 2, True, 6667), ("llama-8b", 128, 1, 2, False, 5605),
        ("llama-8b", 128, 1, 2, True, 6514), ("llama-8b", 64, 8, 12, True, 4378),
        ("llama-3-70b", 256, 8, 16, True, 597.3),
    )  # fmt: skip
    for model, devices, tp, samples, compiled, rate in table:
        recompute = Recompute.OPERATORS if model == "llama-8b" else Recompute.FULL
        yield Run(
            kind="torchtitan", name=f"{model} on {devices}, {'compiled' if compiled else 'eager'}",
            family=family_named(model, 8192), mesh=grand_teton(devices), batch=samples * devices // tp,
            seconds=samples * 8192 / tp / rate, tp=tp, micro_batch=samples, zero=3, recompute=recompute,
            sequence_parallel=tp > 1, attention=FLASH_2,
            trainer=Trainer(gradient_bytes=4.0, traffic=1.0 if compiled else EAGER),
        )  # fmt: skip


def grand_teton(devices: int) -> ChipMesh:
    """Nodes of H100 with 96 GB of HBM2e (2.4 TB/s) that are held at 500 W."""
    mesh = mesh_named(f"{devices // 8}x8xH100")
    peaks = dict(mesh.chip.peaks) | dict.fromkeys((Precision.BF16, Precision.FP16), GRAND_TETON)
    chip = replace(mesh.chip, peaks=tuple(peaks.items()), bandwidth=2.4e12, memory_bytes=96e9)
    return replace(mesh, chip=chip)


def deep_learning_examples() -> Iterator[Run]:
    table = (  # cluster, samples of a device, accumulation, sequences per second
        ("1xA100-80GB", 256, 32, 580), ("8xA100-80GB", 256, 32, 4591), ("2x8xA100-80GB", 256, 16, 9191),
        ("8x8xA100-80GB", 256, 4, 35774), ("32x8xA100-80GB", 256, 1, 138294), ("1xV100-32GB", 64, 64, 224),
        ("8xV100-32GB", 64, 64, 1746),
    )  # fmt: skip
    for cluster, samples, steps, rate in table:
        mesh = mesh_named(cluster)
        family = decoder_only(
            "bert-large", hidden=1024, layers=24, heads=16, vocabulary=30528 * 20 // 128, tokens=128,
            causal=False, fused_attention=False, style="bert",
        )  # fmt: skip
        batch = samples * steps * mesh.devices
        yield Run(
            kind="DeepLearningExamples", name=f"BERT x 128 on {cluster}", family=family, mesh=mesh, batch=batch,
            seconds=batch / rate, micro_batch=samples, trainer=replace(NOT_OVERLAPPED, traffic=BERT_TRAFFIC),
        )  # fmt: skip


def runs() -> Iterator[Run]:
    for kind in (sc21, mlsys23, megascale, llama3, torchtitan, deep_learning_examples):
        yield from kind()


def summary(label: str, errors: Iterable[float]) -> str:
    found = list(errors)
    return (
        f"{label:<34}{len(found):>4} runs{100 * mean(map(abs, found)):>8.1f} % mean"
        f"{100 * mean(found):>8.1f} % signed{100 * max(found, key=abs):>8.1f} % largest"
    )


def parts(prediction: Prediction) -> str:
    stage = prediction.stages[prediction.bottleneck]
    milliseconds = {
        "forward": stage.forward_s, "backward": stage.backward_s, "again": stage.recompute_s,
        "transfers": stage.transfer_s, "sharded": stage.sync.per_micro_batch_s,
    }  # fmt: skip
    words = [f"{name} {1e3 * seconds:.0f}" for name, seconds in milliseconds.items() if seconds > 5e-4]
    return f"ms of a micro-batch: {', '.join(words)}; bubble {100 * prediction.bubble:.0f} %"


def main() -> None:
    errors: dict[str, dict[str, float]] = {}
    print(f"{'kind':<22}{'run':<34}{'published':>11}{'predicted':>11}{'error':>9}")
    for run in runs():
        prediction = run.predicted()
        error = prediction.iteration_s / run.seconds - 1
        errors.setdefault(run.kind, {})[run.name] = error
        print(
            f"{run.kind:<22}{run.name:<34}{run.seconds:>10.2f}s{prediction.iteration_s:>10.2f}s{100 * error:>8.1f}%"
            + (f"  {parts(prediction)}" if "--parts" in sys.argv else "")
        )
    print()
    for kind, found in errors.items():
        print(summary(kind, found.values()))
    every = {f"{kind}, {name}": error for kind, found in errors.items() for name, error in found.items()}
    print(summary("all", every.values()))
    print(summary("all, kinds weighing the same", [mean(map(abs, found.values())) for found in errors.values()]))
    beyond = [name for name, error in every.items() if abs(error) > TARGET_WORST]
    print(f"beyond {100 * TARGET_WORST:.0f} %: {', '.join(beyond) or 'none'}")
    for title, lines in (("sources", [f"{kind}: {text}" for kind, text in SOURCES.items()]), ("assumed", ASSUMED)):
        print(f"\n{title}")
        for line in lines:
            print(f"  {line}")


if __name__ == "__main__":
    main()
