"""What stands in the way of following a model, said in the user's terms: which line of their code, and what to do."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from penstock.core import InputError, PenstockError

_DATA_DEPENDENT = (
    "meta tensors",
    "Cannot copy out of meta tensor",
    "data-dependent",
    "_local_scalar_dense",
    "meta device",
)
_COMPILED = "fail_on_recompile"


@contextmanager
def explained() -> Iterator[None]:
    """Whatever a hook, a model or its loss raises becomes an error that names the line it comes from."""
    try:
        with _nothing_compiled():
            yield
    except PenstockError:
        raise
    except (Exception, SystemExit) as problem:
        raise _explanation(problem) from problem


def _explanation(problem: BaseException) -> InputError:
    said = f"{type(problem).__name__}: {problem}".strip()
    if any(words in said for words in _DATA_DEPENDENT):
        return InputError(
            f"the model reads the value of a tensor at {_culprit(problem)}",
            "models whose sizes do not depend on the data",
            "Leave .item(), .tolist() and .numpy() out of the path that is predicted, or profile the job instead",
        )
    if _COMPILED in said:
        return _compiled(f"a function compiled with torch.compile at {_culprit(problem)}")
    return InputError(
        f"following the model failed at {_culprit(problem)}: {' '.join(said.split())[:500]}",
        "a penstock_model whose model takes the inputs that it returns",
        "Run one iteration of it on the CPU first: it fails there in the same way",
    )


def refuse_compiled(model: nn.Module) -> None:
    """Kernels that a compiler fuses are others than the ones that would be followed: refused, never taken as eager."""
    for name, module in model.named_modules():
        if type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
            raise _compiled(f"{name or 'a model'} compiled with torch.compile")


def _compiled(given: str) -> InputError:
    return InputError(
        given, "a model as it runs without a compiler", "Return the model itself from penstock_model; one measured "
        "iteration (--measured) tells how much faster it is compiled",
    )  # fmt: skip


@contextmanager
def _nothing_compiled() -> Iterator[None]:
    """Functions compiled by torch.compile raise when they are called; nothing is imported for those who have none."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    import torch

    stance: Any = torch.compiler.set_stance
    with stance(_COMPILED):
        yield


def _culprit(problem: BaseException) -> str:
    """The last line that is neither ours nor PyTorch's."""
    every = traceback.extract_tb(problem.__traceback__)
    theirs = [frame for frame in every if not _is_ours(frame.filename)]
    frame = (theirs or every)[-1]
    return f"{frame.filename}:{frame.lineno}: {frame.line or frame.name}"


def _is_ours(filename: str) -> bool:
    return "/torch/" in filename or "/penstock/predict/" in filename or "/contextlib.py" in filename
