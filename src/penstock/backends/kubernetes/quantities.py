"""Amounts as Kubernetes writes them: "500m" processor cores, "32Gi" of memory."""

import re

from penstock.core import InputError

_QUANTITY = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_SCALES = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def parse_quantity(text: str | float) -> float:
    """
    >>> parse_quantity("500m"), parse_quantity("8Gi"), parse_quantity(4)
    (0.5, 8589934592.0, 4.0)
    """
    found = _QUANTITY.fullmatch(str(text).strip())
    if found is None:
        raise InputError(f"{text!r} is no amount", 'one as Kubernetes writes it: "4", "500m", "32Gi"')
    return float(found[1]) * _SCALES[found[2] or ""]
