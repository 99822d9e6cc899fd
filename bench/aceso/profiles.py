"""Aceso's public profile database as chains and tables.

The database (github.com/microsoft/SuperScaler, MIT licence) holds measured times and sizes of every operator of GPT,
T5 and Wide-ResNet models on V100 machines, merged into three files: ``ops.csv.gz``, ``collectives.csv.gz``,
``p2p_bandwidth.csv``. This module knows which of these models repeat which operators, what Aceso's cost model says
about their shared buffers and how their tensors are laid out.
"""

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np

from bench.link_fitting import AllReduceTime
from penstock.core import PlanError, UnknownNameError
from penstock.parallel.operators import (
    Collective,
    CostTables,
    Floats,
    MemoryRule,
    OpChain,
    OpKind,
    TensorLayout,
    TransferSpeeds,
)

LAYERS = {
    ("gpt", "350M"): 24, ("gpt", "1_3B"): 24, ("gpt", "2_6B"): 32, ("gpt", "6_7B"): 32, ("gpt", "13B"): 40,
    ("gpt", "scale-layer"): 1, ("t5", "770M"): 24, ("t5", "3B"): 24, ("t5", "6B"): 24, ("t5", "11B"): 24,
    ("t5", "22B"): 48,
}  # fmt: skip
SAME_OPS_AS = {("t5", "22B"): "11B"}
COLUMNS = (
    "fwd_us", "bwd_us", "input_MB", "output_MB", "weight_MB", "activation_MB", "fwd_reserved_MB", "bwd_reserved_MB",
)  # fmt: skip

Row = Mapping[str, str]


@dataclass(frozen=True)
class ProfileDatabase:
    """The merged files in ``folder``; reading them once serves every model."""

    folder: Path

    def tables(self, db: str, model: str, size: str, layers: int | None = None) -> CostTables:
        """Tables of ``model`` in ``size``; ``layers`` repeats the layer another number of times than the model has."""
        profiled = SAME_OPS_AS.get((model, size), size)
        rows = self._ops.get((db, model, profiled))
        if rows is None:
            raise UnknownNameError.of("profile", f"{db}/{model}/{size}", ["/".join(key) for key in self._ops])
        if layers is not None and (model == "resnet" or layers < 1):
            raise PlanError(f"{model} {size} with {layers} layers", "1 or more layers of gpt or t5")
        names = list(dict.fromkeys(row["op_name"] for row in sorted(rows, key=lambda row: int(row["op_index"]))))
        chain = _chain(f"{model}-{size}", model, names, layers or LAYERS.get((model, size), 1))
        return _filled(chain, model, rows, self._links(db), self._collectives.get((db, model, profiled), {}))

    @cached_property
    def _ops(self) -> dict[tuple[str, str, str], list[Row]]:
        groups = defaultdict(list)
        for row in _rows(self.folder / "ops.csv.gz"):
            groups[row["db"], row["model"], row["size"]].append(row)
        return dict(groups)

    @cached_property
    def _collectives(self) -> dict[tuple[str, str, str], dict[tuple[Collective, int], dict[int, float]]]:
        codes = {code.label: code for code in Collective}
        groups: dict[tuple[str, str, str], dict[tuple[Collective, int], dict[int, float]]] = {}
        for row in _rows(self.folder / "collectives.csv.gz"):
            model = groups.setdefault((row["db"], row["model"], row["size"]), {})
            times = model.setdefault((codes[row["collective"]], int(row["num_gpus"])), {})
            times[int(row["data_MB"])] = float(row["time_ms"])
        return groups

    def all_reduces(self, db: str) -> list[AllReduceTime]:
        """Every measured all-reduce of one of the machines."""
        return [
            AllReduceTime(
                size_bytes=float(row["data_MB"]) * 2**20, devices=int(row["num_gpus"]),
                seconds=float(row["time_ms"]) / 1e3,
            )
            for row in _rows(self.folder / "collectives.csv.gz")
            if row["db"] == db and row["collective"] == Collective.ALL_REDUCE.label and float(row["data_MB"]) > 0
        ]  # fmt: skip

    def _links(self, db: str) -> TransferSpeeds:
        speeds = defaultdict(list)
        for row in _rows(self.folder / "p2p_bandwidth.csv"):
            if row["db"] == db:
                speeds[row["scope"]].append(float(row["bandwidth_GBps"]))
        return TransferSpeeds(intra_gbps=tuple(speeds["intra"]), inter_gbps=tuple(speeds["inter"] or speeds["intra"]))


def _rows(path: Path) -> Iterator[Row]:
    try:
        with _open(path) as file:
            yield from csv.DictReader(file)
    except OSError as problem:
        raise PlanError(f"no profile database in {path.parent}: {problem}", "a folder with ops.csv.gz") from problem


def _open(path: Path) -> IO[str]:
    return gzip.open(path, "rt") if path.suffix == ".gz" else path.open()


def _chain(name: str, model: str, names: list[str], layers: int) -> OpChain:
    kinds = [_kind(model, op) for op in names]
    every = range(len(names))
    if model == "gpt":
        return OpChain.of(name, kinds, [0, every[1:14], every[14:]], [1, layers, 1])
    if model == "t5":
        return OpChain.of(name, kinds, [0, every[1:14], 14, 15, every[16:37], every[37:]], [1, layers, 1, 1, layers, 1])
    return OpChain.of(name, kinds, [every], [1])


def _kind(model: str, op: str) -> OpKind:
    starts_layer = op == "enc-1st-layernorm" or "-conv1" in op
    pinned = op in ("encoder-embedding", "decoder-embedding", "gpt-post-process", "t5-post-process", "conv1")
    return OpKind(
        name=op, starts_layer=starts_layer, tunable=_tunable(model, op), pinned=pinned,
        seeds_recompute=not (starts_layer or pinned or "-relu" in op),
    )  # fmt: skip


def _tunable(model: str, op: str) -> bool:
    if model == "resnet":
        return "conv" in op or "downsample" in op
    return op == "encoder-embedding" or any(part in op for part in ("-qkv", "-dense", "-GEMM-"))


def _filled(
    chain: OpChain, model: str, rows: list[Row], links: TransferSpeeds,
    collectives: Mapping[tuple[Collective, int], Mapping[int, float]],
) -> CostTables:  # fmt: skip
    sizes = tuple(sorted({int(row["mbs"]) for row in rows}))
    degrees = tuple(sorted({int(row["tp"]) for row in rows}))
    variants = len({row["algo"] for row in rows})
    kind_of = {kind.name: index for index, kind in enumerate(chain.kinds)}
    values = np.full((len(COLUMNS), len(kind_of), len(sizes), len(degrees), variants), np.nan)
    for row in rows:
        where = kind_of[row["op_name"]], sizes.index(int(row["mbs"])), degrees.index(int(row["tp"])), int(row["algo"])
        values[(slice(None), *where)] = [float(row[column]) for column in COLUMNS]
    layouts = [[_layouts(kind.name, variant) for variant in range(variants)] for kind in chain.kinds]
    return CostTables(
        chain=chain, micro_batches=sizes, tp_degrees=degrees,
        fwd_us=values[0], bwd_us=values[1], input_mb=values[2], output_mb=values[3], weight_mb=values[4],
        activation_mb=values[5], fwd_reserved_mb=values[6], bwd_reserved_mb=values[7],
        activation_scale=_activation_scale(chain),
        layout_in=tuple(tuple(pair[0] for pair in kind) for kind in layouts),
        layout_out=tuple(tuple(pair[1] for pair in kind) for kind in layouts),
        links=links, collectives_ms=collectives, mixes=model != "t5",
        memory=MemoryRule(main=0.0, optimizer=2.0) if model == "resnet" else MemoryRule(),
        source="profile database of Aceso",
    )  # fmt: skip


def _activation_scale(chain: OpChain) -> Floats:
    """Buffers that operators share: Aceso counts the GPT and T5 encoder's softmax in the dropout behind it."""
    scale = np.ones(len(chain.kinds))
    for index, kind in enumerate(chain.kinds):
        if kind.name == "enc-attention-dropout":
            scale[index] = 1.5
        in_place = kind.name in ("enc-attention-softmax", "bn1") or "-bn3" in kind.name
        if in_place or ("-downsample" in kind.name and "0-0" not in kind.name):
            scale[index] = 0.0
    return scale


REPLICATED = TensorLayout(dp_axis=1)
COLUMNS_SPLIT = TensorLayout(dp_axis=1, tp_axis=2)
HEADS_SPLIT = TensorLayout(dp_axis=0, tp_axis=1)
SAMPLES_FIRST = TensorLayout(dp_axis=0)
GPT_LAYOUTS: dict[str, tuple[TensorLayout | None, TensorLayout | None]] = {
    "encoder-embedding": (None, REPLICATED),
    "enc-1st-layernorm": (REPLICATED, REPLICATED), "enc-2nd-layernorm": (REPLICATED, REPLICATED),
    "enc-post-attention-dropout": (REPLICATED, REPLICATED), "enc-post-MLP-dropout": (REPLICATED, REPLICATED),
    "enc-attention-qkv": (REPLICATED, COLUMNS_SPLIT), "enc-MLP-GEMM-1": (REPLICATED, COLUMNS_SPLIT),
    "enc-attention-score": (COLUMNS_SPLIT, HEADS_SPLIT), "enc-attention-softmax": (HEADS_SPLIT, HEADS_SPLIT),
    "enc-attention-dropout": (HEADS_SPLIT, HEADS_SPLIT), "enc-attention-context": (HEADS_SPLIT, COLUMNS_SPLIT),
    "enc-attention-dense": (COLUMNS_SPLIT, REPLICATED), "enc-MLP-GEMM-2": (COLUMNS_SPLIT, REPLICATED),
    "enc-MLP-gelu": (COLUMNS_SPLIT, COLUMNS_SPLIT),
    "final-layernorm": (REPLICATED, SAMPLES_FIRST), "gpt-post-process": (SAMPLES_FIRST, None),
}  # fmt: skip
SWAPPED_BY_VARIANT = ("enc-attention-qkv", "enc-MLP-GEMM-1", "enc-attention-dense", "enc-MLP-GEMM-2")


def _layouts(op: str, variant: int) -> tuple[TensorLayout | None, TensorLayout | None]:
    """Layouts of input and output; variant 1 of a linear layer splits rows where variant 0 splits columns."""
    before, after = GPT_LAYOUTS.get(op, (SAMPLES_FIRST, SAMPLES_FIRST))
    return (after, before) if variant == 1 and op in SWAPPED_BY_VARIANT else (before, after)
