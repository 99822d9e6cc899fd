"""The curve of a job nobody has measured yet, from the model its script offers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from penstock.core import Curve, CurveError


def prior_curve(
    script: str | Path, batch: int, *, device: str, kind: str, counts: Sequence[int], precision: str = "bf16",
    folders: Sequence[Path] = (),
) -> Curve | None:  # fmt: skip
    """Steps per second on each count, predicted; None where the script does not offer ``penstock_model``.

    ``device`` names a profile ("h200", "cpu"), ``kind`` is what the cluster calls such devices. Counts on which the
    model does not fit are left out; a model that fits on none raises :class:`~penstock.core.CurveError`. PyTorch is
    imported only when there is something to predict.
    """
    from penstock.estimate.hooks import load_hook, offers_hook

    if str(script).endswith(".py") and not offers_hook(Path(script)):
        return None
    from penstock.estimate.capture import Setup
    from penstock.estimate.device_profile import profile_named
    from penstock.estimate.forecast import forecast

    profile = profile_named(device, folders)
    possible = [count for count in counts if 1 <= count <= batch] or [1]
    seen = forecast(load_hook(str(script)), batch, profile, Setup(precision=precision), devices=possible)
    fitting = tuple(point for point in seen.points if point.memory.fits(profile.chip.memory_bytes))
    if not fitting:
        raise CurveError(f"{script} at batch {batch} fits on none of {possible} {device} devices", "a smaller batch")
    return replace(seen, points=fitting).curve(kind)
