"""``penstock predict``: iteration time, memory and energy of a model before it runs."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.models.device_counts import device_counts
from penstock.cli.terminal.console import interruptible, out, percent, plain_table, say
from penstock.core import InputError, UnknownNameError, require

if TYPE_CHECKING:
    from penstock.predict import ModelPrediction, PredictedPoint, Setup

_LAYOUTS = {"nchw": "nchw", "channels_first": "nchw", "nhwc": "nhwc", "channels_last": "nhwc"}


def command(
    model: Annotated[
        str, typer.Argument(help="A network (resnet50), module:function, or a script with penstock_model.")
    ],
    device: Annotated[str, typer.Option(help="Kind of device; see `penstock profile device`.")] = "h200",
    batch: Annotated[int, typer.Option(min=1, help="Samples per iteration over all devices.")] = 32,
    devices: Annotated[str, typer.Option(help='Device counts, "1,2,4,8".')] = "1",
    precision: Annotated[
        str, typer.Option(help="default (PyTorch's own), fp32, tf32, bf16, fp16, amp-bf16 or amp-fp16.")
    ] = "bf16",
    layout: Annotated[str, typer.Option(help="Images as nchw, or as nhwc (channels_last).")] = "nchw",
    optimizer: Annotated[
        str,
        typer.Option(
            help="adamw (fused), adamw-foreach, adam, sgd, sgd-plain, rmsprop, adagrad, adafactor, lion or muon."
        ),
    ] = "adamw",
    recompute: Annotated[bool, typer.Option("--recompute", help="Keep only inputs of blocks; run them twice.")] = False,
    link: Annotated[str | None, typer.Option(help="Link between devices, if not the device's own.")] = None,
    measured: Annotated[
        list[str] | None,
        typer.Option(help='An iteration you timed, "BATCH:SECONDS": corrects the rest; two tell device from host.'),
    ] = None,
    compare_layouts: Annotated[bool, typer.Option("--compare-layouts", help="Would channels_last be faster?")] = False,
    compare_precisions: Annotated[bool, typer.Option("--compare-precisions", help="What would bf16 bring?")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Predict how long an iteration takes, what it needs and draws, on one device and on more."""
    require("torch", extra="runtime", why="penstock predict")
    wanted = setups(precision, layout, optimizer, recompute, compare_layouts, compare_precisions)
    predictions = _predictions(
        model, device, batch, device_counts(devices), wanted, link, [_measured(each) for each in measured or ()]
    )
    if as_json:
        mapped = [as_mapping(each) for each in predictions]
        print(json.dumps(mapped if len(mapped) > 1 else mapped[0], indent=2))
    elif len(predictions) > 1:
        _print_comparison(predictions)
    else:
        _print(predictions[0])


def _predictions(
    model: str, device: str, batch: int, counts: Sequence[int], wanted: "Sequence[Setup]", link: str | None,
    measured: Sequence[tuple[int, float]],
) -> "list[ModelPrediction]":  # fmt: skip
    from penstock.predict import load_hook, predict_model, profile_named

    with interruptible():
        profile, hook = profile_named(device), load_hook(model)
        return [
            predict_model(hook, batch, profile, setup, devices=counts, link=link, measured=measured) for setup in wanted
        ]


def setups(
    precision: str, layout: str, optimizer: str, recompute: bool, compare_layouts: bool, compare_precisions: bool
) -> "list[Setup]":
    """One setup, or the ones to compare."""
    from penstock.predict import ImageLayout, Setup

    if layout not in _LAYOUTS:
        raise UnknownNameError.of("layout", layout, _LAYOUTS)
    one = Setup(precision=precision, layout=ImageLayout(_LAYOUTS[layout]), optimizer=optimizer, recompute=recompute)
    layouts = list(ImageLayout) if compare_layouts else [one.layout]
    precisions = ["fp32", "tf32", "bf16", "amp-bf16"] if compare_precisions else [one.precision]
    return [replace(one, precision=each, layout=way) for each in precisions for way in layouts]


def _measured(text: str) -> tuple[int, float]:
    batch, _, seconds = text.partition(":")
    try:
        return int(batch), float(seconds)
    except ValueError:
        raise InputError(f"a measured iteration {text!r}", "BATCH:SECONDS, for example 32:0.041") from None


def as_mapping(seen: "ModelPrediction") -> dict[str, Any]:
    """The answer for programs."""
    return {
        "device": seen.device,
        "batch": seen.batch,
        "precision": seen.setup.precision,
        "layout": str(seen.setup.layout),
        "optimizer": seen.setup.optimizer,
        "parameters": seen.parameters,
        "flops": seen.flops,
        "points": [_point(point) for point in seen.points],
        "notes": list(seen.notes),
    }


def _point(point: "PredictedPoint") -> dict[str, Any]:
    use = point.memory.use
    return {
        "devices": point.devices,
        "samples_per_device": point.share,
        "iteration_s": point.seconds,
        "low_s": point.low,
        "high_s": point.high,
        "device_s": point.time.device_s,
        "host_s": point.time.host_s,
        "communication_s": point.communication_s,
        "dominated_by": point.time.dominated_by,
        "by_bound_s": {str(bound): seconds for bound, seconds in point.time.by_bound.items()},
        "by_family_s": dict(point.time.by_family),
        "beyond_profile": point.time.beyond,
        "joules": point.joules,
        "memory_bytes": {
            "weights": use.weights, "gradients": use.gradients, "optimizer": use.optimizer,
            "activations": use.activations, "peak": point.memory.allocated, "needed": point.memory.needed,
        },
    }  # fmt: skip


def _print(seen: "ModelPrediction") -> None:
    setup = seen.setup
    out.print(
        f"{seen.parameters / 1e6:.1f} M parameters, batch {seen.batch}, {setup.precision}, {setup.layout}, "
        f"{setup.optimizer} on {seen.device}"
    )
    table = plain_table("devices", "iteration", "between (ms)", "speed-up", "exchange", "memory", "energy", "limit")
    for point in seen.points:
        table.add_row(
            str(point.devices), _time(point.seconds), _between(point),
            f"{seen.first.seconds * seen.first.devices / point.seconds:.2f}x",
            _time(point.communication_s), f"{point.memory.needed / 1e9:.1f} GB", f"{point.joules:.1f} J",
            point.time.dominated_by,
        )  # fmt: skip
    out.print(table)
    out.print(f"where the time goes: {_shares(seen.first)}")
    for note in seen.notes:
        say(note)


def _print_comparison(predictions: "Sequence[ModelPrediction]") -> None:
    table = plain_table("setup", "devices", "iteration", "between (ms)", "memory", "energy", "against the first")
    base = predictions[0].first.seconds
    for seen in predictions:
        point = seen.first
        table.add_row(
            f"{seen.setup.precision}, {seen.setup.layout}", str(point.devices), _time(point.seconds),
            _between(point), f"{point.memory.needed / 1e9:.1f} GB", f"{point.joules:.1f} J",
            f"{base / point.seconds:.2f}x",
        )  # fmt: skip
    out.print(table)
    best = min(predictions, key=lambda seen: seen.first.seconds)
    out.print(f"fastest: {best.setup.precision}, {best.setup.layout}")
    for note in dict.fromkeys(note for seen in predictions for note in seen.notes):
        say(note)


def _shares(point: "PredictedPoint") -> str:
    total = sum(point.time.by_family.values()) or 1.0
    ordered = sorted(point.time.by_family.items(), key=lambda item: -item[1])[:6]
    return ", ".join(f"{family} {percent(seconds / total)}" for family, seconds in ordered)


def _between(point: "PredictedPoint") -> str:
    return f"{1e3 * point.low:.1f}..{1e3 * point.high:.1f}"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.2f} ms"
