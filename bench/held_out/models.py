"""The models of held-out runs as families, and the clusters they ran on."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench.published import grand_teton
from penstock.parallel import ChipMesh, Family, family_named, mesh_named
from penstock.parallel.families import decoder_only

MPT = {  # hidden, layers, heads: scripts/train/yamls/pretrain of llm-foundry
    "125m": (768, 12, 12), "350m": (1024, 24, 16), "760m": (1536, 24, 12), "1b": (2048, 24, 16),
    "3b": (2560, 32, 20), "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 48, 56), "70b": (8192, 80, 64),
}  # fmt: skip
GPT3 = {"5b": (4096, 24, 32), "20b": (6144, 44, 48), "175b": (12288, 96, 96)}
NEMOTRON = {"8b": (4096, 32, 32, 32), "22b": (6144, 40, 48, 48), "340b": (18432, 96, 96, 8)}
UNBIASED: dict[str, Any] = {"norm_vectors": 1, "qkv_bias": False, "dense_bias": False, "mlp_bias": False}
GPT_OSS = {"20b": (24, 32), "120b": (36, 128)}
NETWORKS = {  # cluster: its devices, bytes per second of a node's network
    "h100": ("H100", 400e9), "b200": ("B200", 400e9), "h200": ("H200", 400e9), "a100-80gb": ("A100-80GB", 200e9),
    "a100-40gb": ("A100-40GB", 200e9), "a100-ib400": ("A100-80GB", 50e9), "h100-ib800": ("H100", 100e9),
}  # fmt: skip


def cluster_of(name: str, devices: int) -> ChipMesh:
    if name == "grand-teton":
        return grand_teton(devices)
    kind, network = NETWORKS[name]
    mesh = mesh_named(f"{devices // 8}x8x{kind}")
    return replace(mesh, fabric=mesh.fabric.with_rates(f"{network / 1e9:.0f} GB/s of a node", between=network))


def family_of(name: str, tokens: int) -> Family:
    kind, _, size = name.partition("-")
    return MAKERS[kind](size, tokens) if kind in MAKERS else family_named(name, tokens)


def _mpt(size: str, tokens: int) -> Family:
    hidden, layers, heads = MPT[size]
    return decoder_only(
        f"mpt-{size}", hidden=hidden, layers=layers, heads=heads, vocabulary=50368, tokens=tokens, dropout=False
    )


def _gpt3(size: str, tokens: int) -> Family:
    hidden, layers, heads = GPT3[size]
    return decoder_only(f"gpt3-{size}", hidden=hidden, layers=layers, heads=heads, vocabulary=50304, tokens=tokens)


def _nemotron(size: str, tokens: int) -> Family:
    hidden, layers, heads, kv_heads = NEMOTRON[size]
    return decoder_only(
        f"nemotron-{size}", hidden=hidden, layers=layers, heads=heads, kv_heads=kv_heads, vocabulary=256000,
        tokens=tokens, dropout=False, tied=False, positions=False, **UNBIASED,
    )  # fmt: skip


def _llama2(size: str, tokens: int) -> Family:
    assert size == "34b"
    return decoder_only(
        "llama2-34b", hidden=8192, layers=48, heads=64, kv_heads=8, feed_forward=22016, vocabulary=32000, gated=True,
        tokens=tokens, dropout=False, tied=False, positions=False, style="llama", **UNBIASED,
    )  # fmt: skip


def _qwen3(size: str, tokens: int) -> Family:
    assert size == "30b-a3b"
    return decoder_only(
        "qwen3-30b-a3b", hidden=2048, layers=48, heads=32, head_dim=128, kv_heads=4, feed_forward=768, experts=128,
        active=8, vocabulary=151936, gated=True, tokens=tokens, dropout=False, tied=False, positions=False, **UNBIASED,
    )  # fmt: skip


def _gpt_oss(size: str, tokens: int) -> Family:
    layers, experts = GPT_OSS[size.removeprefix("oss-")]
    return decoder_only(
        f"gpt-{size}", hidden=2880, layers=layers, heads=64, head_dim=64, kv_heads=8, feed_forward=2880,
        experts=experts, active=4, window=128, windowed=0.5, vocabulary=201088, gated=True, tokens=tokens,
        dropout=False, tied=False, positions=False,
    )  # fmt: skip


MAKERS: dict[str, Callable[[str, int], Family]] = {
    "mpt": _mpt, "gpt3": _gpt3, "nemotron": _nemotron, "llama2": _llama2, "qwen3": _qwen3, "gpt": _gpt_oss,
}  # fmt: skip
