"""A model family's member: a chain of operators with their work, and the few numbers trainers ask for."""

from dataclasses import dataclass

from penstock.parallel.operators import OpChain, OpWork


@dataclass(frozen=True, kw_only=True)
class Family:
    """A model as a chain of operators with their work: ``parts`` are runs of operators, each repeated.

    ``tokens`` is the sequence length of one sample (1 for images), ``element_bytes`` the width of weights and
    activations, ``tied`` the parameters that the first and the last operator share, ``heads`` what bounds the ways
    attention can be split. ``micro_batches``: the sizes whose costs are known, all where it is empty.
    ``tensor_parallel``: whether operators can be divided at all. ``decoded``: those of ``tokens`` that a decoder of its
    own sees. ``rotary_base``: of rotary positions, 0 where positions are learned. ``experts``: of a layer, of which a
    token uses ``active_experts``. ``window``: keys a query sees at most, 0 for all.
    """

    name: str
    parts: tuple[tuple[tuple[OpWork, ...], int], ...]
    tokens: int
    element_bytes: int = 2
    tied: float = 0.0
    heads: int = 0
    kv_heads: int = 0
    hidden: int = 0
    layers: int = 0
    vocabulary: int = 0
    feed_forward: int = 0
    head_dim: int = 0
    decoded: int = 0
    dropout: bool = False
    rotary_base: int = 0
    experts: int = 0
    active_experts: int = 0
    window: int = 0
    qkv_bias: bool = False
    qk_norm: bool = False
    style: str = ""
    """What a trainer calls the architecture: "gpt", "llama", "t5", "bert", "resnet", "dit", or "module"."""
    micro_batches: tuple[int, ...] = ()
    tensor_parallel: bool = True

    @property
    def works(self) -> tuple[OpWork, ...]:
        """The kinds in the order of the chain's kinds."""
        return tuple(work for part, _ in self.parts for work in part)

    @property
    def parameters(self) -> float:
        return sum(work.parameters.total * count for part, count in self.parts for work in part) - self.tied

    @property
    def training_flops(self) -> float:
        """Of one sample, forward and backward, without recomputation: what utilisation is measured against."""
        return sum(work.training_flops * count for part, count in self.parts for work in part)

    def chain(self) -> OpChain:
        indices, at = [], 0
        for part, _ in self.parts:
            indices.append(list(range(at, at + len(part))))
            at += len(part)
        return OpChain.of(self.name, [work.kind() for work in self.works], indices, [n for _, n in self.parts])
