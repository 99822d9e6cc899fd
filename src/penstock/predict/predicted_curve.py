"""The curve of a job nobody has measured yet, from the model its script offers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from penstock.core import Curve, CurveError, InputError

MOST_DOUBT = 0.5
"""A predicted rate is planned with at half of it, at worst."""


def predict_curve(
    script: str | Path, batch: int, *, device: str, kind: str, counts: Sequence[int], precision: str | None = None,
    folders: Sequence[Path] = (), threads: int = 0,
) -> Curve | None:  # fmt: skip
    """Steps per second on each count, predicted; None where the script does not offer ``penstock_model``.

    ``device`` names a profile ("h200", "cpu"), ``kind`` is what the cluster calls such devices; ``threads`` is how many
    of a CPU's each of them is, where the profile was measured with another number. The script's ``penstock_setup``
    says how it trains unless ``precision`` does; fp32 if neither. Counts on which the model does not fit are left out;
    a model that fits on none raises :class:`~penstock.core.CurveError`. PyTorch is imported only when there is
    something to predict.
    """
    from penstock.predict.model_sources import load_hook, offers_hook, setup_of

    if str(script).endswith(".py") and not offers_hook(Path(script)):
        return None
    from penstock.predict.capture import Setup
    from penstock.predict.device_profile import profile_named
    from penstock.predict.prediction import predict_model

    profile = profile_named(device, folders)
    possible = [count for count in counts if 1 <= count <= batch] or [1]
    hook = load_hook(str(script))
    setup = Setup(**{"precision": "fp32", **setup_of(hook), **({"precision": precision} if precision else {})})
    seen = predict_model(hook, batch, profile, setup, devices=possible)
    fitting = tuple(point for point in seen.points if point.memory.fits(profile.chip.memory_bytes))
    if not fitting:
        raise CurveError(f"{script} at batch {batch} fits on none of {possible} {device} devices", "a smaller batch")
    scaling = replace(seen, points=fitting).curve(kind).scaling(kind)
    assert scaling is not None
    doubts = tuple(min(MOST_DOUBT, 1 - point.seconds / point.high) for point in fitting)
    faster = threads / int(profile.environment.get("threads") or threads) if threads and profile.kind == "cpu" else 1.0
    return Curve(((kind, replace(scaling, rates=tuple(r * faster for r in scaling.rates), doubts=doubts)),))


def profile_for(kind: str, folders: Sequence[Path] = ()) -> str:
    """Which measured profile speaks for a kind of device: the one of its name, else the only accelerator's here."""
    from penstock.predict.device_profile import known_profiles, own_profiles
    from penstock.predict.hardware import device_named

    known = known_profiles(folders)
    name = kind.lower()
    if name in known:
        return name
    try:
        name = device_named(kind).name
    except InputError:
        here = {path.name for folder in (*folders, own_profiles()) for path in folder.glob("*") if path.name in known}
        accelerators = sorted(here - {"cpu"})
        name = accelerators[0] if len(accelerators) == 1 else ""
    if name in known:
        return name
    if name:
        raise InputError(
            f"{name} was never measured: its data sheet is too little to promise on",
            f"a device with a profile: {', '.join(known)}", "Run `penstock profile device` there",
        )  # fmt: skip
    raise InputError(
        f"nothing says which device {kind!r} is", f"the name of a profile: {', '.join(known) or 'none yet'}",
        "Run `penstock profile device` there",
    )  # fmt: skip
