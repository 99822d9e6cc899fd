"""The operators of a GPT in order: what a plan's cuts count, the planner prices and the runtime builds.

Operator ``i`` of a plan is the same operator everywhere because everybody takes it from here.
"""

GPT_FIRST = ("embedding",)
GPT_LAYER = (
    "layer-norm-1", "attention-qkv", "attention-score", "attention-softmax", "attention-dropout", "attention-context",
    "attention-dense", "attention-residual", "layer-norm-2", "mlp-in", "mlp-activation", "mlp-out", "mlp-residual",
)  # fmt: skip
GPT_LAST = ("final-norm", "loss")


def gpt_operators(layers: int) -> tuple[str, ...]:
    """The whole chain of a GPT with so many layers."""
    return (*GPT_FIRST, *(GPT_LAYER * layers), *GPT_LAST)


def gpt_layers(operators: int) -> int:
    """The layers of a GPT with so many operators in all; 0 if no GPT has that many."""
    layers, rest = divmod(operators - len(GPT_FIRST) - len(GPT_LAST), len(GPT_LAYER))
    return layers if layers > 0 and not rest else 0


def first_operator(layer: int) -> int:
    """The position of the first operator of layer ``layer``; one layer further than the last is the final norm."""
    return len(GPT_FIRST) + layer * len(GPT_LAYER)


def starts_gpt_layer(operator: int, layers: int) -> bool:
    """Whether the operator at this position is the first of a layer."""
    place = operator - len(GPT_FIRST)
    return 0 <= place < layers * len(GPT_LAYER) and place % len(GPT_LAYER) == 0
