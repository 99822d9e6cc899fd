"""From a training script to the check of its operators."""

from collections.abc import Callable
from typing import Any

import torch

from penstock.core import InputError, PenstockError, UnknownNameError
from penstock.diagnose.operators.checking import OperatorReport, check_operators
from penstock.diagnose.operators.training_step import TrainingStep
from penstock.predict import Setup, arithmetic, load_hook, setup_of, training_task

_DEVICES = ("auto", "cpu", "cuda")
OPTIMIZERS: dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda weights: torch.optim.SGD(weights, lr=1e-2, momentum=0.9, weight_decay=1e-4),
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=1e-3, fused=True),
    "adamw-foreach": lambda weights: torch.optim.AdamW(weights, lr=1e-3, foreach=True),
}


def check_model(
    script: str, *, batch: int = 4, steps: int = 1, device: str = "auto", precision: str | None = None,
    optimizer: str | None = None, clip: float | None = None,
) -> OperatorReport:  # fmt: skip
    """Follow the model that ``script`` offers through training steps and judge every call.

    The script is imported and its ``penstock_model(batch)`` called, as `penstock predict` does, but on a real device.
    """
    hook = load_hook(script)
    told: dict[str, Any] = {"precision": "fp32", "optimizer": "adamw", **setup_of(hook)}
    asked = {"precision": precision, "optimizer": optimizer}
    told |= {key: value for key, value in asked.items() if value is not None}
    if told["optimizer"] not in OPTIMIZERS:
        raise UnknownNameError.of("optimizer", told["optimizer"], OPTIMIZERS)
    setup, where = Setup(**told), _device(device)

    def build() -> tuple[torch.nn.Module, Callable[[], torch.Tensor]]:
        task = training_task(hook, batch, setup, where)
        return task.model, task.forward

    step = TrainingStep(build=build, optimizer=OPTIMIZERS[setup.optimizer], clip=clip, steps=steps)
    with arithmetic(setup):
        try:
            return check_operators(step)
        except PenstockError:
            raise
        except Exception as problem:
            words = (str(problem).splitlines() or [""])[0]
            raise InputError(
                f"the model of {script} fails: {type(problem).__name__}: {words}",
                "a model that runs a training step", f"Run it by itself, with batch {batch} on {where}",
            ) from problem  # fmt: skip


def _device(name: str) -> str:
    if name not in _DEVICES:
        raise InputError(f"{name!r} is not a device to check on", ", ".join(_DEVICES))
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("PyTorch sees no CUDA device", "--device cpu, or a machine with one")
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
