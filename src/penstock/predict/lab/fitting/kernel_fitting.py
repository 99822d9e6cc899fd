"""From measured calls to the kernel model of a device."""

from collections import defaultdict
from collections.abc import Sequence

from penstock.core import InputError
from penstock.predict.hardware import Chip
from penstock.predict.kernels import KernelModel, kind_of
from penstock.predict.lab.fitting.boosting import BoostingOptions
from penstock.predict.lab.fitting.family_fitting import MeasuredCall, fit_family


def fit_kernels(
    rows: Sequence[MeasuredCall], chip: Chip, *, options: BoostingOptions | None = None, seed: int = 0
) -> KernelModel:
    """One model per family, of a size that its rows call for unless ``options`` say so."""
    if not rows:
        raise InputError("no measured kernel", "at least one", "`penstock profile device` measures this machine")
    by_family: dict[str, list[MeasuredCall]] = defaultdict(list)
    for row in rows:
        by_family[kind_of(row.call)].append(row)
    families = {
        name: fit_family(rows, chip, options or BoostingOptions.for_rows(len(rows)), seed)
        for name, rows in by_family.items()
    }
    return KernelModel(chip=chip, families=families)
