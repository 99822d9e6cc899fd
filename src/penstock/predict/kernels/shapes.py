"""What calls have in common: the same arithmetic, the same layer."""

from penstock.predict.kernels.calls import KernelCall
from penstock.predict.kernels.tiling import is_pointwise


def physics_key(call: KernelCall) -> str:
    """What has coefficients of its own."""
    return f"{call.precision}/{call.layout}{'/pointwise' if is_pointwise(call) else ''}"


def shape_family(call: KernelCall) -> tuple[int, ...]:
    """What stays when only the batch changes: calls that share it belong on one side of a split."""
    if call.family == "gemm":
        return call.dims[2:]
    if call.family.startswith(("conv", "attention")):
        return call.dims[1:]
    if call.family.startswith("norm"):
        return (call.dims[0], call.dims[2]) if len(call.dims) > 2 else call.dims[1:]
    return call.dims[-1:] if len(call.dims) == 2 and not call.family.startswith("pool") else call.dims
