"""A model from a ``config.json`` of the Hugging Face kind: the handful of fields that decide its shape.

Parameter counts are those of the library's models, to the last one, for the architectures in ``COUNTED``; the others
are taken for their nearest relative.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.core import InputError, UnknownNameError
from penstock.parallel.families.family import Family
from penstock.parallel.families.transformer import decoder_only, encoder_decoder

LLAMA_SHAPE: dict[str, Any] = {"norm_vectors": 1, "qkv_bias": False, "dense_bias": False, "mlp_bias": False}
"""Norms without a shift, linear layers without a bias."""
LLAMA_LIKE = (
    "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma", "gemma2", "phi3", "olmo", "internlm2", "yi",
    "stablelm",
)  # fmt: skip
GPT_LIKE = ("gpt2", "gpt_neo", "gpt_neox", "gptj", "opt", "bloom", "falcon", "gpt_bigcode")
BERT_LIKE = ("bert", "roberta", "distilbert", "electra", "deberta", "xlm-roberta", "vit")
T5_LIKE = ("t5", "mt5", "umt5", "longt5")
KNOWN = (*GPT_LIKE, *LLAMA_LIKE, *BERT_LIKE, *T5_LIKE)
COUNTED = (
    "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma", "gemma2", "phi3", "olmo", "stablelm", "gpt2",
    "gpt_neox", "gptj", "opt", "bloom", "falcon", "gpt_bigcode", "bert", "roberta", "t5",
)  # fmt: skip
LIKE_LLAMA_IN_TRAINERS = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "phi3", "internlm2", "yi")
LIKE_GPT_IN_TRAINERS = ("gpt2", "gpt_bigcode")
RELATIVE_BUCKETS = 32
OPT_OFFSET = 2
"""Positions that OPT leaves unused before the first."""
_LONGEST_DEFAULT = 4096
_LARGEST_BYTES = 4 << 20


def family_from_config(path: Path, tokens: int | None = None) -> Family:
    """The model that the file (or the folder with a ``config.json``) describes."""
    path = path / "config.json" if path.is_dir() else path
    config = _read(path)
    kind = str(config.get("model_type", "")).lower()
    if kind not in KNOWN:
        raise UnknownNameError.of(f"model_type in {path}", kind, KNOWN)
    fields = _Fields(path, config)
    name = f"{path.parent.name or kind}" if path.name == "config.json" else path.stem
    return _t5(name, fields, tokens) if kind in T5_LIKE else _stack(name, kind, fields, tokens)


def _stack(name: str, kind: str, fields: "_Fields", tokens: int | None) -> Family:
    hidden = fields.number("hidden_size", "n_embd", "d_model", "dim")
    heads = fields.number("num_attention_heads", "n_head", "n_heads")
    head_dim = fields.optional("head_dim") or 0
    if hidden % heads and not head_dim:
        raise InputError(
            f"{fields.path}: hidden size {hidden} with {heads} attention heads",
            "a hidden size the heads divide, or a head_dim",
        )  # fmt: skip
    length = fields.optional("max_position_embeddings", "n_positions", "seq_length", "max_sequence_length")
    shape = _Shape(
        fields=fields, kind=kind, hidden=hidden, heads=heads, head_dim=head_dim or hidden // heads,
        vocabulary=fields.number("vocab_size"), length=length or 2048,
    )  # fmt: skip
    llama, bert = kind in LLAMA_LIKE, kind in BERT_LIKE
    return decoder_only(
        name, hidden=hidden, heads=heads, layers=fields.number("num_hidden_layers", "n_layer", "n_layers"),
        kv_heads=shape.kv_heads, head_dim=shape.head_dim, feed_forward=shape.feed_forward,
        vocabulary=shape.vocabulary, tokens=tokens or min(length or 2048, _LONGEST_DEFAULT), gated=llama,
        dropout=not llama, causal=not bert, positions=False, tied=shape.tied, style=shape.style,
        rotary_base=shape.rotary_base, extra=shape.extra, layer_extra=shape.layer_extra,
        qk_norm=kind.startswith("qwen3"), **shape.traits,
    )  # fmt: skip


class _Shape:
    """What an architecture adds to or leaves out of a plain stack of layers."""

    def __init__(
        self, *, fields: "_Fields", kind: str, hidden: int, heads: int, head_dim: int, vocabulary: int, length: int
    ) -> None:
        self.fields, self.kind, self.hidden, self.heads = fields, kind, hidden, heads
        self.head_dim, self.vocabulary, self.length = head_dim, vocabulary, length

    @property
    def style(self) -> str:
        """What a trainer calls it; an architecture of its own where none of theirs computes the same."""
        if self.kind in LIKE_LLAMA_IN_TRAINERS:
            return "llama"
        if self.kind in BERT_LIKE:
            return "bert"
        return "gpt" if self.kind in LIKE_GPT_IN_TRAINERS else self.kind

    @property
    def kv_heads(self) -> int:
        one = self.kind in ("falcon", "gpt_bigcode") and self.fields.flag("multi_query", True)
        return 1 if one else self.fields.optional("num_key_value_heads", "num_kv_heads") or self.heads

    @property
    def feed_forward(self) -> int:
        if self.experts:
            own = self.fields.optional("moe_intermediate_size")
            return own or self.fields.number("intermediate_size")
        return self.fields.optional("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size") or 4 * self.hidden

    @property
    def experts(self) -> int:
        return self.fields.optional("num_local_experts", "num_experts", "n_routed_experts") or 0

    @property
    def tied(self) -> bool:
        untied = (self.kind in LLAMA_LIKE and not self.kind.startswith("gemma")) or self.kind in ("gpt_neox", "gptj")
        return self.fields.flag("tie_word_embeddings", not untied)

    @property
    def rotary_base(self) -> int:
        if self.kind not in LLAMA_LIKE:
            return 0
        return round(self.fields.real("rope_theta", 10_000.0))

    @property
    def window(self) -> int:
        """Mistral's and Gemma's; Qwen has one that is off unless it is asked for."""
        if self.kind.startswith("qwen") and not self.fields.flag("use_sliding_window", False):
            return 0
        return self.fields.optional("sliding_window") or 0

    @property
    def traits(self) -> dict[str, Any]:
        """Fields of the layers' shape."""
        found = dict(LLAMA_SHAPE) if self.kind in LLAMA_LIKE else {}
        if self.kind in LLAMA_LIKE:
            biased = self.fields.flag("attention_bias", False)
            found |= {"qkv_bias": self.kind == "qwen2" or biased, "dense_bias": biased}
            found["mlp_bias"] = self.fields.flag("mlp_bias", False)
        found |= _TRAITS.get(self.kind, {})
        if self.window:
            found |= {"window": self.window, "windowed": 0.5 if self.kind == "gemma2" else 1.0}
        if self.experts:
            active = self.fields.optional("num_experts_per_tok") or 2
            found |= {"experts": self.experts, "active": min(active, self.experts)}
        return found

    @property
    def extra(self) -> float:
        """Of the model: learned positions, norms behind an embedding, what stands before the logits."""
        return float(_EXTRA.get(self.kind, _no_more)(self))

    @property
    def layer_extra(self) -> float:
        """Of every layer: norms of queries and keys, further norms, or one less than usual."""
        return float(_LAYER_EXTRA.get(self.kind, _no_more)(self))


def _no_more(_: _Shape) -> int:
    return 0


def _masked(shape: _Shape) -> int:
    """Positions, sorts of tokens and a norm behind them; a layer, a norm and a bias before the logits, no last norm."""
    sorts = shape.fields.optional("type_vocab_size") or 2
    before = (shape.length + sorts) * shape.hidden + 2 * shape.hidden
    return before + shape.hidden**2 + shape.hidden + shape.vocabulary


_TRAITS: dict[str, dict[str, Any]] = {
    "olmo": {"norm_vectors": 0},
    "stablelm": {"norm_vectors": 2},
    "gptj": {"qkv_bias": False, "dense_bias": False},
    "falcon": {"qkv_bias": False, "dense_bias": False, "mlp_bias": False},
}
_EXTRA: dict[str, Callable[[_Shape], int]] = {
    "gpt2": lambda shape: shape.length * shape.hidden,
    "gpt_neo": lambda shape: shape.length * shape.hidden,
    "gpt_bigcode": lambda shape: shape.length * shape.hidden,
    "opt": lambda shape: (shape.length + OPT_OFFSET) * shape.hidden,
    "bloom": lambda shape: 2 * shape.hidden,
    "gptj": lambda shape: shape.vocabulary,
    **dict.fromkeys(BERT_LIKE, _masked),
}
_LAYER_EXTRA: dict[str, Callable[[_Shape], int]] = {
    "qwen3": lambda shape: 2 * shape.head_dim,
    "qwen3_moe": lambda shape: 2 * shape.head_dim,
    "gemma2": lambda shape: 2 * shape.hidden,
    "gptj": lambda shape: -2 * shape.hidden,
    "falcon": lambda shape: -2 * shape.hidden,
}


def _t5(name: str, fields: "_Fields", tokens: int | None) -> Family:
    length = tokens or fields.optional("n_positions") or 512
    heads = fields.number("num_heads")
    gated = str(fields.text("feed_forward_proj", "relu")).startswith("gated")
    return encoder_decoder(
        name, hidden=fields.number("d_model"), layers=fields.number("num_layers"), heads=heads,
        head_dim=fields.number("d_kv"), feed_forward=fields.number("d_ff"), vocabulary=fields.number("vocab_size"),
        decoder_layers=fields.optional("num_decoder_layers") or 0, tokens=length, decoded=max(1, length // 4),
        positions=False, extra=float(2 * RELATIVE_BUCKETS * heads), gated=gated,
        tied=2.0 if fields.flag("tie_word_embeddings", True) else 1.0, **LLAMA_SHAPE,
    )  # fmt: skip


def _read(path: Path) -> Mapping[str, Any]:
    """Servers read such files in the middle of requests: a pipe would be waited for, and a huge file fill memory."""
    if path.exists() and (not path.is_file() or path.stat().st_size > _LARGEST_BYTES):
        raise InputError(f"{path} is no file of at most {_LARGEST_BYTES >> 20} MiB", "a config.json with a model_type")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror}", "a config.json with a model_type") from problem
    except ValueError as problem:
        raise InputError(f"{path} is not JSON: {problem}", "a config.json with a model_type") from problem
    if not isinstance(config, dict):
        raise InputError(f"{path} holds a {type(config).__name__}", "an object with model_type, hidden_size, …")
    return config


class _Fields:
    """Numbers of a config under whichever name the architecture uses."""

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self._config = config

    def number(self, *names: str) -> int:
        value = self.optional(*names)
        if value is None:
            raise InputError(f"{self.path} has no {names[0]}", f"one of {', '.join(names)}")
        return value

    def optional(self, *names: str) -> int | None:
        for name in names:
            value = self._config.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{self.path}: {name} is {value!r}", "a whole number of at least 1")
            return value
        return None

    def real(self, name: str, default: float) -> float:
        value = self._config.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise InputError(f"{self.path}: {name} is {value!r}", "a number above 0")
        return float(value)

    def text(self, name: str, default: str) -> str:
        value = self._config.get(name, default)
        if not isinstance(value, str):
            raise InputError(f"{self.path}: {name} is {value!r}", "a word")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._config.get(name)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise InputError(f"{self.path}: {name} is {value!r}", "true or false")
        return value
