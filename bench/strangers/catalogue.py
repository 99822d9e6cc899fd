"""Which strangers there are: kind by kind, at two batch sizes each, in the precisions and optimizers people use.

Whole kinds are kept apart: those that calibrate may be looked at and fitted to, blind ones may not. Blind ones were
written without a look at how times are predicted or at a prediction; nothing may be fitted to or chosen by them either.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from bench.strangers.networks import (
    blind_motion,
    blind_pictures,
    blind_science,
    blind_sound,
    blind_tokens,
    blind_words,
    others,
    pictures,
    relations,
    sequences,
)
from penstock.predict.capture import Setup
from penstock.predict.kernels import ImageLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A network, the kind it is of, two batch sizes, and how it trains."""

    name: str
    kind: str
    build: Callable[[int], Any]
    batches: tuple[int, int]
    setup: Setup
    blind: bool = False
    """Whether it was written by somebody who knew neither how times are predicted nor a prediction of it."""

    def hook(self, batch: int) -> Any:
        return self.build(batch)


def _words(model: Callable[[], nn.Module], length: int, words: int, batch: int) -> Any:
    tokens = torch.randint(words, (batch, length))
    return model(), tokens, partial(sequences.next_word, tokens=tokens)


def _classes(model: Callable[[], nn.Module], shape: tuple[int, ...], classes: int, batch: int) -> Any:
    labels = torch.randint(classes, (batch,))
    return model(), torch.randn(batch, *shape), lambda output: functional.cross_entropy(output.float(), labels)


def _s4(batch: int) -> Any:
    return _classes(partial(sequences.S4, 256, 6), (1024, 1), 10, batch)


def _tagger(batch: int) -> Any:
    tags = torch.randint(20, (batch, 128))
    return (
        sequences.Tagger(30000, 256, 512, 2, 20), torch.randint(30000, (batch, 128)),
        partial(sequences.next_word, tokens=tags),
    )  # fmt: skip


def _word_model(batch: int) -> Any:
    tokens = torch.randint(10000, (70, batch))
    return sequences.WordModel(10000, 650, 2), tokens, partial(sequences.next_word, tokens=tokens)


def _translator(batch: int) -> Any:
    source, target = torch.randint(16000, (batch, 48)), torch.randint(16000, (batch, 48))
    return sequences.Translator(16000, 512), (source, target), partial(sequences.next_word, tokens=target)


def _cells(batch: int) -> Any:
    return sequences.CellByCell(64, 256), torch.randn(batch, 32, 64)


def _ddpm(batch: int) -> Any:
    noise = torch.randn(batch, 3, 64, 64)
    inputs = (torch.randn(batch, 3, 64, 64), torch.randint(1000, (batch,)))
    return pictures.DiffusionUNet(128), inputs, lambda output: functional.mse_loss(output.float(), noise.float())


def _dit(batch: int) -> Any:
    inputs = (torch.randn(batch, 4, 32, 32), torch.randint(1000, (batch,)), torch.randint(1000, (batch,)))
    return pictures.DiffusionTransformer(768, 12, 12), inputs, lambda output: output.float().square().mean()


def _gan(batch: int) -> Any:
    inputs = (torch.randn(batch, 128, 1, 1), torch.randn(batch, 3, 64, 64))
    return pictures.Adversaries(64), inputs, pictures.adversarial_loss


def _vqvae(batch: int) -> Any:
    picture = torch.randn(batch, 3, 64, 64)
    return pictures.Quantised(256, 512), picture, partial(pictures.quantised_loss, picture=picture)


def _detector(batch: int) -> Any:
    return pictures.Detector(), torch.randn(batch, 3, 512, 512), pictures.detection_loss


def _segmenter(batch: int) -> Any:
    labels = torch.randint(21, (batch, 256, 256))
    return (
        pictures.Segmenter(), torch.randn(batch, 3, 256, 256),
        lambda output: functional.cross_entropy(output.float(), labels),
    )  # fmt: skip


def _scan(batch: int) -> Any:
    labels = torch.randint(4, (batch, 64, 64, 64))
    return (
        pictures.VolumeUNet(24), torch.randn(batch, 1, 64, 64, 64),
        lambda output: functional.cross_entropy(output.float(), labels),
    )  # fmt: skip


def _edges(nodes: int, each: int) -> tuple[Tensor, Tensor]:
    return torch.randint(nodes, (nodes * each,)), torch.randint(nodes, (nodes * each,))


def _gcn(batch: int) -> Any:
    """The batch is in thousands of nodes."""
    nodes, labels = 1000 * batch, torch.randint(47, (1000 * batch,))
    inputs = (torch.randn(nodes, 100), *_edges(nodes, 25))
    return relations.GraphNet(100, 256, 3, 47), inputs, lambda output: functional.cross_entropy(output.float(), labels)


def _gat(batch: int) -> Any:
    nodes, labels = 1000 * batch, torch.randint(7, (1000 * batch,))
    inputs = (torch.randn(nodes, 500), *_edges(nodes, 10))
    model = relations.GraphAttentionNet(500, 32, 8, 7)
    return model, inputs, lambda output: functional.cross_entropy(output.float(), labels)


def _molecules(batch: int) -> Any:
    atoms, bonds = 24 * batch, 52 * batch
    inputs = (
        torch.randint(100, (atoms,)), torch.randint(8, (bonds,)), torch.randint(atoms, (bonds,)),
        torch.randint(atoms, (bonds,)), torch.arange(batch).repeat_interleave(24),
    )  # fmt: skip
    return relations.Molecules(128, 5), inputs


def _points(batch: int) -> Any:
    return _classes(relations.PointNet, (1024, 3), 40, batch)


def _dgcnn(batch: int) -> Any:
    return _classes(relations.DynamicGraph, (1024, 3), 40, batch)


def _clicks(output: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(output.float(), torch.zeros_like(output).float())


def _dlrm(batch: int) -> Any:
    inputs = (torch.randn(batch, 13), torch.randint(100000, (batch, 26, 4)))
    return relations.Recommender(26, 100000, 64), inputs, _clicks


def _deepfm(batch: int) -> Any:
    return relations.Factorised(39, 1000000, 16), torch.randint(1000000, (batch, 39)), _clicks


def _sasrec(batch: int) -> Any:
    return relations.NextItem(50000, 128, 2), (
        torch.randint(50000, (batch, 100)),
        torch.randint(50000, (batch, 100, 8)),
    )


def _experts(block: Callable[[], nn.Module], batch: int) -> Any:
    def model() -> nn.Module:
        return relations.ExpertModel(512, 8, 4, 32000, block())

    return _words(model, 512, 32000, batch)


def _mamba(batch: int) -> Any:
    return _words(partial(sequences.Mamba, 512, 8, 32000), 512, 32000, batch)


def _retnet(batch: int) -> Any:
    return _words(partial(sequences.RetNet, 512, 6, 8, 32000), 512, 32000, batch)


def _mixtral(batch: int) -> Any:
    return _experts(partial(relations.MaskedExperts, 512, 1536, 8, 2), batch)


def _switch(batch: int) -> Any:
    return _experts(partial(relations.CapacityExperts, 512, 1536, 16), batch)


def _encoder(batch: int) -> Any:
    inputs = (torch.randint(30000, (batch, 256)), torch.zeros(batch, 256, dtype=torch.bool))
    labels = torch.randint(2, (batch,))
    model = others.Classifier(30000, 512, 8, 6)
    return model, inputs, lambda output: functional.cross_entropy(output.float(), labels)


def _seq2seq(batch: int) -> Any:
    source, target = torch.randint(16000, (64, batch)), torch.randint(16000, (64, batch))
    model = others.SequenceToSequence(16000, 512, 8, 6)
    return model, (source, target), partial(sequences.next_word, tokens=target)


def _vision(batch: int) -> Any:
    return _classes(partial(others.Vision, 384, 6, 12), (3, 224, 224), 1000, batch)


def _biased(batch: int) -> Any:
    return others.Biased(384, 6, 8, 256), torch.randn(batch, 256, 96)


def _checkpointed(batch: int) -> Any:
    return _words(partial(others.Checkpointed, 32000, 1024, 16, 8), 512, 32000, batch)


def _conformer(batch: int) -> Any:
    letters = torch.randint(1, 128, (batch, 40))
    return others.Conformer(256, 4, 12), torch.randn(batch, 800, 80), partial(others.ctc, letters=letters)


def _wave(batch: int) -> Any:
    return others.WaveEncoder(512, 8, 6), torch.randn(batch, 64000)


def _glow(batch: int) -> Any:
    return others.Flow(512, 16), torch.randn(batch, 3, 32, 32), others.itself


def _maf(batch: int) -> Any:
    return others.Autoregressive(63, 512, 10), torch.randn(batch, 63), others.itself


def _operator(batch: int) -> Any:
    return others.Operator(64, 16, 4), torch.randn(batch, 3, 128, 128)


def _field(batch: int) -> Any:
    return others.Field(256, 8, 64), torch.randn(batch, 6)


def _ft(batch: int) -> Any:
    return others.Tabular(40, 10, 192, 3), (torch.randn(batch, 40), torch.randint(10000, (batch, 10))), _clicks


def _plain(batch: int) -> Any:
    return others.Plain(200, 1024, 4), torch.randn(batch, 200), _clicks


def _ppo(batch: int) -> Any:
    inputs = (
        torch.randn(batch, 17), torch.randint(6, (batch,)), torch.randn(batch), torch.randn(batch), torch.randn(batch),
    )  # fmt: skip
    return others.ActorCritic(17, 6), inputs, others.itself


def _impala(batch: int) -> Any:
    return others.PixelPolicy(), torch.randn(batch, 4, 64, 64)


def _clip(batch: int) -> Any:
    return others.TwoTowers(512, 8), (torch.randn(batch, 3, 224, 224), torch.randint(32000, (batch, 77))), others.itself


def _simclr(batch: int) -> Any:
    return others.Twins(64), torch.randn(batch, 3, 32, 32), others.itself


def _stranger(
    name: str, kind: str, build: Callable[[int], Any], batches: tuple[int, int], precision: str, optimizer: str,
    layout: str = "nchw", *, blind: bool = False,
) -> Stranger:  # fmt: skip
    setup = Setup(precision=precision, optimizer=optimizer, layout=ImageLayout(layout))
    return Stranger(name=name, kind=kind, build=build, batches=batches, setup=setup, blind=blind)


_blind = partial(_stranger, blind=True)


STRANGERS: tuple[Stranger, ...] = (
    _stranger("mamba", "state space", _mamba, (8, 24), "amp-bf16", "adamw-foreach"),
    _stranger("gcn", "graph", _gcn, (20, 60), "default", "adam"),
    _stranger("ddpm", "diffusion", _ddpm, (16, 64), "amp-bf16", "adamw-foreach"),
    _stranger("mixtral", "experts", _mixtral, (8, 32), "bf16", "adamw-foreach"),
    _stranger("dlrm", "recommendation", _dlrm, (2048, 8192), "default", "adagrad"),
    _stranger("word-lstm", "recurrent", _word_model, (64, 256), "default", "sgd-plain"),
    _stranger("encoder", "encoder", _encoder, (32, 128), "amp-bf16", "adamw-foreach"),
    _stranger("conformer", "speech", _conformer, (8, 32), "amp-bf16", "adamw-foreach"),
    _stranger("scan-unet", "volume", _scan, (2, 6), "amp-fp16", "sgd"),
    _stranger("ppo", "control", _ppo, (64, 4096), "default", "adam"),
    _stranger("dcgan", "adversarial", _gan, (128, 512), "default", "adam"),
    _stranger("retinanet", "detection", _detector, (4, 16), "amp-bf16", "sgd", "nhwc"),
    _stranger("pointnet", "points", _points, (16, 64), "default", "adam"),
    _stranger("glow", "flow", _glow, (64, 256), "default", "adam"),
    _stranger("fno", "field", _operator, (8, 32), "default", "adam"),
    _stranger("ft-transformer", "table", _ft, (256, 2048), "default", "adamw-foreach"),
    _stranger("clip", "contrast", _clip, (64, 256), "amp-bf16", "adamw-foreach"),
    _stranger("checkpointed", "language", _checkpointed, (8, 32), "amp-bf16", "muon"),
    _stranger("s4", "state space", _s4, (8, 32), "default", "adamw-foreach"),
    _stranger("gat", "graph", _gat, (20, 60), "default", "adam"),
    _stranger("dit", "diffusion", _dit, (16, 64), "bf16", "adamw"),
    _stranger("switch", "experts", _switch, (8, 32), "amp-bf16", "adafactor"),
    _stranger("deepfm", "recommendation", _deepfm, (4096, 16384), "default", "adam"),
    _stranger("tagger", "recurrent", _tagger, (32, 128), "amp-fp16", "adamw-foreach"),
    _stranger("seq2seq", "encoder", _seq2seq, (32, 128), "default", "adam"),
    _stranger("wave", "speech", _wave, (4, 16), "amp-bf16", "adamw-foreach"),
    _stranger("film", "volume", partial(_classes, pictures.Film, (3, 16, 112, 112), 400), (4, 16), "default", "sgd"),
    _stranger("impala", "control", _impala, (64, 512), "default", "rmsprop"),
    _stranger("vq-vae", "adversarial", _vqvae, (32, 128), "default", "adam"),
    _stranger("deeplab", "detection", _segmenter, (8, 32), "amp-bf16", "sgd"),
    _stranger("dgcnn", "points", _dgcnn, (8, 32), "default", "sgd"),
    _stranger("maf", "flow", _maf, (512, 8192), "default", "adam"),
    _stranger("nerf", "field", _field, (1024, 4096), "tf32", "adam"),
    _stranger("plain", "table", _plain, (1024, 16384), "default", "adamw-foreach"),
    _stranger("simclr", "contrast", _simclr, (128, 512), "amp-bf16", "sgd", "nhwc"),
    _stranger("relative", "encoder", _biased, (16, 64), "amp-bf16", "lion"),
    _stranger("retnet", "state space", _retnet, (8, 32), "bf16", "adamw-foreach"),
    _stranger("molecules", "graph", _molecules, (128, 1024), "default", "adam"),
    _stranger("sasrec", "recommendation", _sasrec, (128, 512), "default", "adam"),
    _stranger("vit-mha", "encoder", _vision, (64, 256), "amp-bf16", "adamw-foreach"),
    _stranger("translator", "recurrent", _translator, (64, 256), "default", "adam"),
    _stranger("cells", "control", _cells, (64, 512), "default", "adam"),
    _blind("swin", "windowed vision", blind_pictures.swin, (32, 128), "amp-bf16", "adamw-foreach"),
    _blind("pinn", "physics", blind_science.pinn, (4000, 32000), "default", "adam"),
    _blind("raft", "optical flow", blind_motion.raft, (2, 8), "amp-fp16", "adamw-foreach"),
    _blind("fastspeech", "speech synthesis", blind_sound.fastspeech, (8, 32), "amp-fp16", "adam"),
    _blind("lora", "adapters", blind_tokens.lora, (2, 8), "bf16", "adamw"),
    _blind("word-vectors", "word vectors", blind_words.word_vectors, (4096, 32768), "default", "sgd-plain"),
    _blind("edsr", "super-resolution", blind_pictures.edsr, (16, 64), "default", "adam"),
    _blind("evoformer", "protein", blind_science.evoformer, (1, 4), "amp-bf16", "adamw-foreach"),
    _blind("capsules", "capsules", blind_pictures.capsules, (64, 256), "default", "adam"),
    _blind("nowcast", "weather", blind_motion.nowcast, (4, 16), "amp-bf16", "adam", "nhwc"),
    _blind("mixer", "token mixing", blind_tokens.mixer, (64, 256), "bf16", "adamw"),
    _blind("neural-ode", "differential equation", blind_science.neural_ode, (128, 512), "default", "sgd"),
    _blind("style", "style transfer", blind_pictures.style, (4, 16), "default", "adam"),
    _blind("osnet", "metric learning", blind_motion.osnet, (64, 256), "amp-fp16", "adam", "nhwc"),
    _blind("timesformer", "video", blind_motion.timesformer, (2, 8), "amp-bf16", "sgd"),
    _blind("set-transformer", "sets", blind_tokens.set_transformer, (64, 256), "default", "adamw-foreach"),
    _blind("longformer", "long documents", blind_tokens.longformer, (1, 4), "amp-bf16", "adamw-foreach"),
    _blind("wavenet", "audio", blind_sound.wavenet, (2, 8), "default", "adam"),
    _blind("crnn", "text recognition", blind_words.crnn, (64, 256), "default", "rmsprop"),
    _blind("sentence-vae", "sentence autoencoder", blind_words.sentence_vae, (32, 128), "default", "adam"),
)  # fmt: skip
"""In the order they are measured: every kind first comes once, so that a run that is cut off is still of use."""
