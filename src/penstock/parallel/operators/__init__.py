"""A model as searches read it: a chain of operators, the work each does, how its tensors lie, what it costs."""

from penstock.parallel.operators.chain import OpChain, OpKind, Repeat
from penstock.parallel.operators.cost_tables import (
    COLUMNS,
    FORBIDDEN_MS,
    CostTables,
    Floats,
    MemoryRule,
    OpState,
    TransferSpeeds,
)
from penstock.parallel.operators.tensor_layout import Collective, Reshard, TensorLayout, reshard
from penstock.parallel.operators.work import Divides, OpWork, Product, Volume

__all__ = [
    "COLUMNS",
    "FORBIDDEN_MS",
    "Collective",
    "CostTables",
    "Divides",
    "Floats",
    "MemoryRule",
    "OpChain",
    "OpKind",
    "OpState",
    "OpWork",
    "Product",
    "Repeat",
    "Reshard",
    "TensorLayout",
    "TransferSpeeds",
    "Volume",
    "reshard",
]
