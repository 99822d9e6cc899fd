"""What weights are called elsewhere: tables of names, one for each family of models of Hugging Face.

A table is data. A row says how a model of ours may call a weight, what the family calls it, and whether the family
keeps it transposed (GPT-2's layers are ``Conv1D``, with inputs first). ``{i}`` stands for the number of a layer. A
model whose names are the family's own is exported as it is: every family's names are rows that change nothing.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.core import InputError, UnknownNameError

_LAYER = r"(\d+)"


@dataclass(frozen=True, slots=True)
class NameRow:
    """A weight ``ours`` of a model of ours, ``theirs`` in the family."""

    ours: str
    theirs: str
    transposed: bool = False

    def forth(self, name: str) -> str | None:
        return _renamed(self.ours, self.theirs, name)

    def back(self, name: str) -> str | None:
        return _renamed(self.theirs, self.ours, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The names of a family, and the keys of ``config.json`` that shapes of weights tell: (weight, dimension)."""

    architecture: str
    model_type: str
    rows: tuple[NameRow, ...]
    sizes: Mapping[str, tuple[str, int]]
    layers: tuple[str, str]
    """The key for the number of layers, and a weight that every layer has."""
    needed: tuple[str, ...] = ()
    """Keys that no shape tells."""

    def row_of(self, name: str) -> tuple[NameRow, str]:
        """The row for a weight of ours, and its name there."""
        for row in self.rows:
            if (found := row.forth(name)) is not None:
                return row, found
        raise InputError(
            f"a weight {name!r}, which {self.architecture} does not have", "names that the family's table knows",
            "Export it without --hf, under its own names",
        )  # fmt: skip

    def row_back(self, name: str, known: Iterable[str]) -> tuple[NameRow, str] | None:
        """The row for a weight of theirs, and its name in a model that has the weights ``known``."""
        have = frozenset(known)
        for row in self.rows:
            found = row.back(name)
            if found is not None and found in have:
                return row, found
        return None


def _same(*names: str, transposed: bool = False) -> tuple[NameRow, ...]:
    return tuple(NameRow(name, name, transposed) for name in names)


def _without(prefix: str, rows: Iterable[NameRow]) -> tuple[NameRow, ...]:
    """The same weights in a model that is not inside of another."""
    return tuple(
        NameRow(row.ours.removeprefix(prefix), row.theirs, row.transposed)
        for row in rows
        if row.ours.startswith(prefix)
    )


_LLAMA = _same(
    "model.embed_tokens.weight",
    *(f"model.layers.{{i}}.self_attn.{part}_proj.{what}" for part in "qkvo" for what in ("weight", "bias")),
    *(f"model.layers.{{i}}.mlp.{part}_proj.weight" for part in ("gate", "up", "down")),
    "model.layers.{i}.input_layernorm.weight",
    "model.layers.{i}.post_attention_layernorm.weight",
    "model.norm.weight",
    "lm_head.weight",
)
_GPT2_LAYERS = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
_GPT2 = (
    *_same("transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"),
    *_same(*(f"transformer.h.{{i}}.{layer}.weight" for layer in _GPT2_LAYERS), transposed=True),
    *_same(*(f"transformer.h.{{i}}.{layer}.bias" for layer in _GPT2_LAYERS)),
    *_same(*(f"transformer.h.{{i}}.ln_{n}.{what}" for n in (1, 2) for what in ("weight", "bias"))),
    *_same("transformer.ln_f.weight", "transformer.ln_f.bias"),
)

FAMILIES = {
    "llama": Family(
        architecture="LlamaForCausalLM",
        model_type="llama",
        rows=(*_LLAMA, *_without("model.", _LLAMA)),
        sizes={
            "vocab_size": ("model.embed_tokens.weight", 0),
            "hidden_size": ("model.embed_tokens.weight", 1),
            "intermediate_size": ("model.layers.0.mlp.gate_proj.weight", 0),
        },
        layers=("num_hidden_layers", "model.layers.{i}.input_layernorm.weight"),
        needed=("num_attention_heads", "num_key_value_heads"),
    ),
    "gpt2": Family(
        architecture="GPT2LMHeadModel",
        model_type="gpt2",
        rows=(*_GPT2, *_without("transformer.", _GPT2)),
        sizes={
            "vocab_size": ("transformer.wte.weight", 0),
            "n_embd": ("transformer.wte.weight", 1),
            "n_positions": ("transformer.wpe.weight", 0),
        },
        layers=("n_layer", "transformer.h.{i}.ln_1.weight"),
        needed=("n_head",),
    ),
}


def family_named(name: str) -> Family:
    if name not in FAMILIES:
        raise UnknownNameError.of("family of models", name, FAMILIES)
    return FAMILIES[name]


def _renamed(pattern: str, other: str, name: str) -> str | None:
    found = re.fullmatch(re.escape(pattern).replace(re.escape("{i}"), _LAYER), name)
    if found is None:
        return None
    return other.replace("{i}", found[1]) if found.groups() else other
