"""The number formats arithmetic runs in."""

from enum import StrEnum


class Precision(StrEnum):
    """What the arithmetic runs in; ``TF32`` holds fp32 tensors and multiplies them in tensor cores."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"

    @property
    def bytes(self) -> int:
        return 4 if self in (Precision.FP32, Precision.TF32) else 2
