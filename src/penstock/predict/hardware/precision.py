"""The number formats arithmetic runs in."""

from enum import StrEnum


class Precision(StrEnum):
    """What the arithmetic runs in; ``TF32`` holds fp32 tensors and multiplies them in tensor cores."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"

    @property
    def bytes(self) -> int:
        return {Precision.FP32: 4, Precision.TF32: 4, Precision.FP8: 1}.get(self, 2)
