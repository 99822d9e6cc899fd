"""Which accelerator a worker computes on, and by which library it speaks with its peers: NCCL, HCCL or gloo.

Huawei's NPUs are known to torch only where ``torch_npu`` can be imported; without it they are not there.
"""

import os
from importlib.util import find_spec
from typing import Any

import torch

CUDA, NPU, CPU = "cuda", "npu", "cpu"
_COLLECTIVES = {CUDA: "cpu:gloo,cuda:nccl", NPU: "cpu:gloo,npu:hccl", CPU: "gloo"}


def accelerator() -> str:
    """The kind of device that torch can use here."""
    if torch.cuda.is_available():
        return CUDA
    return NPU if find_spec("torch_npu") is not None and _npu().is_available() else CPU


def collective_backend(shared: bool) -> str:
    """Torch's name for the libraries between workers. Of two workers on one device only gloo makes a group."""
    return _COLLECTIVES[CPU if shared else accelerator()]


def take_device(local_rank: int) -> torch.device:
    """The device of a worker, made the current one."""
    kind = accelerator()
    if kind == CPU:
        return torch.device(CPU)
    # Survivors must outlive a lost peer; the watchdog's default is to end the process.
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    module: Any = torch.cuda if kind == CUDA else _npu()
    device = torch.device(kind, local_rank % module.device_count())
    module.set_device(device)
    return device


def _npu() -> Any:
    """Torch's module for NPUs, which comes to be with the import of its package."""
    __import__("torch_npu")
    return torch.npu  # type: ignore[attr-defined]
