"""Transformers as operator chains: GPT, Llama, BERT, T5 and DiT differ in a few numbers and one or two operators.

Bytes that are kept follow Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models"
(MLSys'23): 34 bytes per token and hidden unit, plus 5 per score when attention is not fused. Traffic of element-wise
kernels is counted from what each of them reads and writes.
"""

from dataclasses import dataclass, replace
from typing import Any

from penstock.core import GPT_LAYER
from penstock.parallel.families.family import Family
from penstock.parallel.operators import Divides, OpWork, Product, TensorLayout, Volume

REPLICATED = TensorLayout(dp_axis=1)
COLUMNS_SPLIT = TensorLayout(dp_axis=1, tp_axis=2)

LOGIT_BYTES = 40.0
"""Bytes moved per logit by a cross-entropy in fp32: cast, maximum, exponent, sum, gradient, cast back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    """The numbers of one stack of transformer layers."""

    tokens: int
    hidden: int
    heads: int
    head_dim: int
    kv_heads: int
    feed_forward: int
    gated: bool = False
    dropout: bool = True
    causal: bool = True
    fused_attention: bool = True
    attended: int = 0
    """Tokens of the other sequence in cross attention; 0 means its own."""
    norm_vectors: int = 2
    """Parameters of a norm per hidden unit: scale and shift, a scale alone, or none."""
    qkv_bias: bool = True
    dense_bias: bool = True
    mlp_bias: bool = True
    window: int = 0
    """Keys a query sees at most; 0 means all."""
    windowed: float = 1.0
    """Share of the layers whose attention has that window."""
    experts: int = 0
    active: int = 1
    """Experts of a layer, and how many of them a token uses."""

    @property
    def width(self) -> int:
        """Of all heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def keys(self) -> int:
        return self.attended or self.tokens

    @property
    def queries(self) -> float:
        """Bytes of all queries."""
        return 2.0 * self.tokens * self.width

    @property
    def pairs(self) -> float:
        """Bytes of all keys and values."""
        return 4.0 * self.keys * self.kv_width

    @property
    def seen(self) -> float:
        """Share of all pairs of a query and a key that fused attention computes: none above the diagonal, and of those
        below only the ones inside of the window."""
        whole = 0.5 if self.causal else 1.0
        if not self.window or self.window >= self.keys:
            return whole
        inside = self.window / self.keys
        near = inside - inside**2 / 2 if self.causal else min(1.0, 2 * inside)
        return self.windowed * near + (1 - self.windowed) * whole

    @property
    def flow(self) -> Volume:
        """The activations between operators."""
        return Volume(whole=2.0 * self.tokens * self.hidden)


def norm(shape: LayerShape, name: str, *, starts_layer: bool = False) -> OpWork:
    one = float(shape.tokens * shape.hidden)
    return OpWork(
        name=name, moved_forward=Volume(4 * one), moved_backward=Volume(10 * one), kept=Volume(2 * one),
        parameters=Volume(float(shape.norm_vectors * shape.hidden)), received=shape.flow, sent=Volume(4 * one),
        starts_layer=starts_layer, norm=not name.startswith("final"), layout=(REPLICATED, REPLICATED),
    )  # fmt: skip


def linear(
    shape: LayerShape, name: str, *, columns: int, inner: int, divides: Divides, kernels: int = 1,
    moved: float = 0.0, rows: int = 0, bias: bool = True,
) -> OpWork:  # fmt: skip
    """A linear layer, by columns (its backward pass sums the input gradient) or by rows (its forward pass the output).

    ``moved``: bytes per token moved beside the product in the forward pass, split over the ranks. The gradient of a
    bias is the sum of the output's gradient, which is read for it once more.
    """
    rows = rows or shape.tokens
    by_columns = divides is Divides.COLUMNS
    inside, outside = COLUMNS_SPLIT, REPLICATED
    residual = 2.0 * shape.tokens * shape.hidden
    split = 2.0 * rows * (columns if by_columns else inner)
    summed = 2.0 * rows * columns * bias
    return OpWork(
        name=name, products=(Product(rows=rows, columns=columns, inner=inner, divides=divides, narrow=True),),
        moved_forward=Volume(split=rows * moved),
        moved_backward=Volume(0.0 if by_columns else summed, 2.0 * rows * moved + summed * by_columns),
        parameters=Volume(0.0 if by_columns else columns * bias, columns * inner + columns * bias * by_columns),
        kept=Volume(2.0 * rows * inner) if by_columns else Volume(split=2.0 * rows * inner),
        received=Volume(2 * residual) if by_columns else Volume(residual, split),
        sent=Volume(residual, split) if by_columns else Volume(2 * residual),
        reduced_forward=0.0 if by_columns else 2.0 * rows * columns,
        reduced_backward=2.0 * rows * inner if by_columns else 0.0,
        kernels=kernels, tunable=True, layout=(outside, inside) if by_columns else (inside, outside),
    )  # fmt: skip


def attention(shape: LayerShape) -> tuple[OpWork, ...]:
    """From queries, keys and values to their weighted sum, step by step.

    A fused kernel does all steps at once. The steps stay, so that a chain means the same with and without it: the two
    products keep their work, what is between them costs nothing, and a cut there would have to move all scores.
    """
    steps = _attention_steps(shape)
    if shape.fused_attention:
        steps = tuple(_fused(shape, step) for step in steps)
    return tuple(replace(step, layout=(COLUMNS_SPLIT, COLUMNS_SPLIT), attends=True) for step in steps)


def _fused(shape: LayerShape, step: OpWork) -> OpWork:
    """Blocks of pairs that a mask hides are skipped: a causal one halves the work."""
    if not step.products:
        return replace(step, moved_forward=Volume(), moved_backward=Volume(), kept=Volume(), kernels=0)
    product = step.products[0]
    sides = {
        side: round(getattr(product, side) * shape.seen)
        for side in ("columns", "inner")
        if getattr(product, side) == shape.keys
    }
    return replace(
        step, products=(replace(product, backward=2.5, fused=True, **sides),), kernels=1,
        moved_forward=Volume(split=shape.queries + shape.pairs / 2),
        moved_backward=Volume(split=2.5 * shape.queries + shape.pairs),
        kept=Volume(split=step.kept.split + 2.0 * shape.heads * shape.tokens),
    )  # fmt: skip


def _attention_steps(shape: LayerShape) -> tuple[OpWork, ...]:
    scores = float(shape.heads * shape.tokens * shape.keys)
    through = Volume(shape.flow.whole, 2.0 * scores + shape.pairs / 2)
    score = Product(
        rows=shape.tokens, columns=shape.keys, inner=shape.head_dim, count=shape.heads, divides=Divides.COUNT,
        weight=False,
    )  # fmt: skip
    steps = (
        OpWork(
            name="attention-score", products=(score,), kept=Volume(split=shape.queries + shape.pairs / 2),
            received=Volume(shape.flow.whole, shape.queries + shape.pairs), sent=through, kernels=2,
        ),
        OpWork(
            name="attention-softmax", moved_forward=Volume(split=4 * scores), moved_backward=Volume(split=6 * scores),
            kept=Volume(split=2 * scores), received=through, sent=through,
        ),
        OpWork(
            name="attention-dropout", moved_forward=Volume(split=5 * scores), moved_backward=Volume(split=5 * scores),
            kept=Volume(split=3 * scores), received=through, sent=through,
        ),
        OpWork(
            name="attention-context", products=(replace(score, columns=shape.head_dim, inner=shape.keys),),
            kept=Volume(split=shape.pairs / 2), received=through, sent=Volume(shape.flow.whole, shape.queries),
            kernels=3,
        ),
    )  # fmt: skip
    return steps if shape.dropout else (*steps[:2], steps[3])


def residual_add(shape: LayerShape, name: str) -> OpWork:
    """The sum with the layer's input, behind a dropout where the model has one."""
    one = float(shape.tokens * shape.hidden)
    forward, backward, kept = (7.0, 11.0, 1.0) if shape.dropout else (6.0, 6.0, 0.0)
    return OpWork(
        name=name, moved_forward=Volume(forward * one), moved_backward=Volume(backward * one), kept=Volume(kept * one),
        received=Volume(4 * one), sent=shape.flow, kernels=2, layout=(REPLICATED, REPLICATED),
    )  # fmt: skip


def activation(shape: LayerShape) -> OpWork:
    """The non-linearity between the two linear layers; a gated one multiplies two halves."""
    wide = float(shape.tokens * shape.active * shape.feed_forward)
    inputs = 2.0 if shape.gated else 1.0
    residual = 2.0 * shape.tokens * shape.hidden
    return OpWork(
        name="mlp-activation", moved_forward=Volume(split=2 * wide * (inputs + 1)),
        moved_backward=Volume(split=2 * wide * (2 * inputs + 2)), kept=Volume(split=2 * wide * inputs),
        received=Volume(residual, 2 * wide * inputs), sent=Volume(residual, 2 * wide),
        layout=(COLUMNS_SPLIT, COLUMNS_SPLIT),
    )  # fmt: skip


def self_attention(shape: LayerShape) -> tuple[OpWork, ...]:
    qkv = shape.width + 2 * shape.kv_width
    return (
        linear(
            shape, "attention-qkv", columns=qkv, inner=shape.hidden, divides=Divides.COLUMNS, kernels=2,
            moved=4.0 * shape.width, bias=shape.qkv_bias,
        ),
        *attention(shape),
        linear(
            shape, "attention-dense", columns=shape.hidden, inner=shape.width, divides=Divides.INNER,
            bias=shape.dense_bias,
        ),
        residual_add(shape, "attention-residual"),
    )  # fmt: skip


def feed_forward(shape: LayerShape) -> tuple[OpWork, ...]:
    wide = shape.feed_forward * (2 if shape.gated else 1)
    rows, bias = shape.tokens * shape.active, shape.mlp_bias
    into = linear(
        shape, "mlp-in", columns=wide, inner=shape.hidden, divides=Divides.COLUMNS, rows=rows, bias=bias
    )  # fmt: skip
    out_of = linear(
        shape, "mlp-out", columns=shape.hidden, inner=shape.feed_forward, divides=Divides.INNER, rows=rows, bias=bias
    )  # fmt: skip
    if shape.experts:
        into, out_of = routed(shape, into), expert(shape, out_of)
    return (into, activation(shape), out_of, residual_add(shape, "mlp-residual"))


def expert(shape: LayerShape, work: OpWork) -> OpWork:
    """A linear layer of every expert: as many weights as there are experts, as many rows as tokens choose."""
    return replace(
        work, parameters=work.parameters.times(shape.experts),
        dispatched=2.0 * shape.tokens * shape.active * shape.hidden,
        reduced_forward=work.reduced_forward / shape.active, reduced_backward=work.reduced_backward / shape.active,
    )  # fmt: skip


def routed(shape: LayerShape, work: OpWork) -> OpWork:
    """The experts' first layer with the router before it; tokens are gathered by expert and scattered back."""
    router = Product(rows=shape.tokens, columns=shape.experts, inner=shape.hidden)
    gathered = 4.0 * shape.tokens * shape.active * shape.hidden
    own = expert(shape, work)
    return replace(
        own, products=(router, *own.products), kernels=own.kernels + 4,
        parameters=Volume(own.parameters.whole + shape.experts * shape.hidden, own.parameters.split),
        moved_forward=Volume(gathered, own.moved_forward.split),
        moved_backward=Volume(gathered, own.moved_backward.split),
    )  # fmt: skip


def layer(shape: LayerShape) -> tuple[OpWork, ...]:
    """The operators of :data:`~penstock.core.GPT_LAYER`; models without dropout lack the one of attention."""
    works = (
        norm(shape, "layer-norm-1", starts_layer=True),
        *self_attention(shape),
        norm(shape, "layer-norm-2"),
        *feed_forward(shape),
    )
    by_name = {work.name: work for work in works}
    return tuple(by_name[name] for name in GPT_LAYER if name in by_name)


def embedding(shape: LayerShape, vocabulary: int, *, positions: bool, extra: float = 0.0) -> OpWork:
    one = float(shape.tokens * shape.hidden)
    learned = one if positions else 0.0
    return OpWork(
        name="embedding", moved_forward=Volume(8 * one), moved_backward=Volume(12 * one),
        parameters=Volume(learned + extra, float(vocabulary * shape.hidden)),
        kept=Volume(1.0 * one if shape.dropout else 0.0), received=Volume(8.0 * shape.tokens), sent=shape.flow,
        reduced_forward=2 * one, kernels=3, pinned=True, layout=(None, REPLICATED),
    )  # fmt: skip


def head(shape: LayerShape, vocabulary: int) -> tuple[OpWork, ...]:
    """The last norm, the logits and the loss."""
    one, logits = float(shape.tokens * shape.hidden), float(shape.tokens * vocabulary)
    return (
        norm(shape, "final-norm"),
        OpWork(
            name="loss", products=(
                Product(rows=shape.tokens, columns=vocabulary, inner=shape.hidden, divides=Divides.COLUMNS),
            ),
            moved_forward=Volume(split=0.6 * LOGIT_BYTES * logits),
            moved_backward=Volume(split=0.4 * LOGIT_BYTES * logits),
            parameters=Volume(split=float(vocabulary * shape.hidden)), kept=Volume(2 * one, 4.0 * logits),
            received=shape.flow, sent=Volume(), reduced_backward=2 * one, kernels=6, pinned=True,
            layout=(REPLICATED, None),
        ),
    )  # fmt: skip


def decoder_only(
    name: str, *, hidden: int, layers: int, heads: int, vocabulary: int, tokens: int, kv_heads: int = 0,
    head_dim: int = 0, feed_forward: int = 0, gated: bool = False, dropout: bool = True, causal: bool = True,
    tied: bool = True, positions: bool = True, fused_attention: bool = True, rotary_base: int = 0, style: str = "gpt",
    extra: float = 0.0, layer_extra: float = 0.0, qk_norm: bool = False, **more: Any,
) -> Family:  # fmt: skip
    """GPT, Llama and, without the causal mask, BERT.

    ``extra``: further parameters of the model, at its embedding, and ``layer_extra`` of every layer, at its first norm:
    what an architecture has beside these operators. ``more``: fields of :class:`LayerShape`.
    """
    shape = LayerShape(
        tokens=tokens, hidden=hidden, heads=heads, head_dim=head_dim or hidden // heads, kv_heads=kv_heads or heads,
        feed_forward=feed_forward or 4 * hidden, gated=gated, dropout=dropout, causal=causal,
        fused_attention=fused_attention, **more,
    )  # fmt: skip
    body = layer(shape)
    body = (replace(body[0], parameters=Volume(body[0].parameters.whole + layer_extra)), *body[1:])
    return Family(
        name=name, tokens=tokens, heads=heads, kv_heads=shape.kv_heads, hidden=hidden, layers=layers,
        vocabulary=vocabulary, feed_forward=shape.feed_forward, head_dim=shape.head_dim, dropout=dropout,
        rotary_base=rotary_base, style=style, tied=float(vocabulary * hidden) if tied else 0.0,
        experts=shape.experts, active_experts=shape.active if shape.experts else 0, window=shape.window,
        qkv_bias=shape.qkv_bias, qk_norm=qk_norm, parts=(
            ((embedding(shape, vocabulary, positions=positions, extra=extra),), 1),
            (body, layers),
            (head(shape, vocabulary), 1),
        ),
    )  # fmt: skip


def encoder_decoder(
    name: str, *, hidden: int, layers: int, heads: int, head_dim: int, feed_forward: int, vocabulary: int,
    tokens: int, decoded: int, decoder_layers: int = 0, positions: bool = True, extra: float = 0.0,
    tied: float | None = None, **more: Any,
) -> Family:  # fmt: skip
    """T5: an encoder over ``tokens`` and a decoder over ``decoded`` tokens that also attends to the encoder.

    ``tied``: embeddings that are the same as another (the decoder's and the logits' where it is left out).
    """
    encoder = LayerShape(
        tokens=tokens, causal=False, hidden=hidden, heads=heads, head_dim=head_dim, kv_heads=heads,
        feed_forward=feed_forward, **more,
    )  # fmt: skip
    decoder = replace(encoder, tokens=decoded, causal=True)
    cross = replace(encoder, tokens=decoded, attended=tokens)
    return Family(
        name=name, tokens=tokens + decoded, heads=heads, kv_heads=heads, hidden=hidden,
        layers=layers + (decoder_layers or layers), vocabulary=vocabulary, feed_forward=feed_forward, style="t5",
        head_dim=head_dim, decoded=decoded, dropout=True, tied=(2.0 if tied is None else tied) * vocabulary * hidden,
        parts=(
            ((embedding(encoder, vocabulary, positions=positions, extra=extra).named("encoder-embedding"),), 1),
            (_prefixed("encoder", layer(encoder)), layers),
            (
                (norm(encoder, "encoder-final-norm"), _decoder_embedding(encoder, decoder, vocabulary, positions)), 1,
            ),
            (_prefixed("decoder", _carrying(encoder, decoder_layer(decoder, cross))), decoder_layers or layers),
            (_prefixed("decoder", head(decoder, vocabulary)), 1),
        ),
    )  # fmt: skip


def decoder_layer(own: LayerShape, cross: LayerShape) -> tuple[OpWork, ...]:
    keys = linear(
        cross, "qkv", columns=cross.width, inner=cross.hidden, divides=Divides.COLUMNS, kernels=3,
        moved=4.0 * cross.width, bias=cross.qkv_bias,
    )  # fmt: skip
    encoded = Product(
        rows=cross.attended, columns=2 * cross.kv_width, inner=cross.hidden, divides=Divides.COLUMNS, narrow=True
    )  # fmt: skip
    both = OpWork(
        name="cross-qkv", products=(*keys.products, encoded), moved_forward=keys.moved_forward,
        moved_backward=keys.moved_backward,
        parameters=Volume(0.0, keys.parameters.total + 2.0 * cross.kv_width * cross.hidden),
        kept=Volume(keys.kept.whole), received=keys.received, sent=keys.sent,
        reduced_backward=keys.reduced_backward + 2.0 * cross.attended * cross.hidden, kernels=4, tunable=True,
        layout=keys.layout,
    )  # fmt: skip
    across = (
        both,
        *(step.named(f"cross-{step.name}") for step in attention(cross)),
        linear(
            cross, "cross-dense", columns=cross.hidden, inner=cross.width, divides=Divides.INNER, bias=cross.dense_bias
        ),
        residual_add(cross, "cross-residual"),
    )
    return (
        norm(own, "layer-norm-1", starts_layer=True), *self_attention(own), norm(own, "layer-norm-2"), *across,
        norm(own, "layer-norm-3"), *feed_forward(own),
    )  # fmt: skip


def _decoder_embedding(encoder: LayerShape, decoder: LayerShape, vocabulary: int, positions: bool) -> OpWork:
    looked_up = embedding(decoder, vocabulary, positions=positions)
    return OpWork(
        name="decoder-embedding", moved_forward=looked_up.moved_forward, moved_backward=looked_up.moved_backward,
        parameters=looked_up.parameters, kept=looked_up.kept, received=encoder.flow,
        sent=Volume(encoder.flow.whole + decoder.flow.whole), reduced_forward=looked_up.reduced_forward, kernels=3,
        pinned=True, layout=(REPLICATED, REPLICATED),
    )  # fmt: skip


def _carrying(encoder: LayerShape, works: tuple[OpWork, ...]) -> tuple[OpWork, ...]:
    """The encoder's output travels with the decoder's activations from stage to stage."""
    extra = encoder.flow.whole
    return tuple(
        replace(
            work, received=Volume(work.received.whole + extra, work.received.split),
            sent=Volume(work.sent.whole + extra, work.sent.split),
        )
        for work in works
    )  # fmt: skip


def _prefixed(prefix: str, works: tuple[OpWork, ...]) -> tuple[OpWork, ...]:
    return tuple(work.named(f"{prefix}-{work.name}") for work in works)


def diffusion(name: str, *, hidden: int, layers: int, heads: int, tokens: int, patch: int = 2) -> Family:
    """DiT (Peebles and Xie, ICCV'23): transformer layers whose norms are modulated by time step and class."""
    shape = LayerShape(
        tokens=tokens, hidden=hidden, heads=heads, head_dim=hidden // heads, kv_heads=heads, feed_forward=4 * hidden,
        dropout=False, causal=False,
    )  # fmt: skip
    modulation = linear(shape, "modulation", columns=6 * hidden, inner=hidden, divides=Divides.COLUMNS, rows=1)
    pixels = 4 * patch * patch
    ends = (
        linear(shape, "patchify", columns=hidden, inner=pixels, divides=Divides.COLUMNS),
        linear(shape, "unpatchify", columns=2 * pixels, inner=hidden, divides=Divides.COLUMNS),
    )  # fmt: skip
    body = layer(shape)
    return Family(
        name=name, tokens=tokens, heads=heads, kv_heads=heads, hidden=hidden, layers=layers, style="dit",
        feed_forward=4 * hidden, head_dim=hidden // heads,
        parts=(((ends[0],), 1), ((body[0], modulation, *body[1:]), layers), ((norm(shape, "final-norm"), ends[1]), 1)),
    )  # fmt: skip
