"""How a trainer runs a model's kernels, as a person says it: fused or one by one, in half precision or in fp8."""

from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.core import InputError, UnknownNameError
from penstock.parallel.devices import EAGER, ChipMesh, Trainer
from penstock.parallel.families import Family
from penstock.predict import Precision

EAGER_PRODUCTS = 0.785 / 0.869
"""Products of a model against the best of all shapes, with which an A100 is priced: what a transformer's reach of a
V100's peak (`bench.analytic`), and the best shape of an A100's (S. Bekman, "Machine Learning Engineering")."""
FLASH_2_ON_HOPPER = 350e12
"""FLOP/s of FlashAttention-2 on an H100, which PyTorch runs there (Shah et al., FlashAttention-3, 2024)."""
HOPPER = 9.0


class Kernels(StrEnum):
    """Fused, as Megatron-LM's and compiled ones are, or one by one, as PyTorch runs them without its compiler."""

    FUSED = "fused"
    EAGER = "eager"


class PlanPrecision(StrEnum):
    """What linear layers are computed in; half precision means bf16 where the device has it, else fp16."""

    HALF = "half"
    FP8 = "fp8"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerKernels:
    """``tp_overlap``: collectives of tensor parallelism run behind the products they belong to."""

    kernels: str = Kernels.FUSED
    precision: str = PlanPrecision.HALF
    tp_overlap: bool = False

    def __post_init__(self) -> None:
        for what, name, kinds in (("kernels", self.kernels, Kernels), ("precision", self.precision, PlanPrecision)):
            if name not in list(kinds):
                raise UnknownNameError.of(what, name, [kind.value for kind in kinds])

    def trainer(self, mesh: ChipMesh, family: Family) -> Trainer:
        """The trainer that is assumed for a model on a cluster."""
        narrow = self.precision == PlanPrecision.FP8
        if narrow and (family.element_bytes != 2 or family.style == "module"):
            raise InputError(
                f"fp8 for {family.name}", "a transformer in half precision", "Leave --precision away for this model"
            )
        usual = mesh.usual_trainer(Precision.FP32 if family.element_bytes == 4 else Precision.FP16)
        usual = replace(usual, fp8=narrow, overlaps_tensors=self.tp_overlap)
        return _eager(usual, mesh, family) if self.kernels == Kernels.EAGER else usual


USUAL_KERNELS = TrainerKernels()


def _eager(trainer: Trainer, mesh: ChipMesh, family: Family) -> Trainer:
    """Llama's norms, rotary positions and gates are many kernels each; a GPT's are one, fused or not."""
    rate = mesh.priced(Precision.FP16, trainer).device
    fused = rate.peak * rate.compute_share * rate.attention_share
    attention = min(1.0, FLASH_2_ON_HOPPER / fused) if mesh.chip.generation >= HOPPER else 1.0
    traffic = EAGER if family.style == "llama" else 1.0
    return replace(trainer, traffic=traffic, products=EAGER_PRODUCTS, attention=attention / EAGER_PRODUCTS)
