"""Devices by name, and checks that say which device they are of and survive one that fails under them."""

from collections.abc import Iterator
from dataclasses import replace

from penstock.diagnose.preflight.report import Check, Status


def device_name(device: str) -> str:
    import torch

    return "cpu" if device == "cpu" else torch.cuda.get_device_name(device)


def guarded(device: str, what: str, checks: Iterator[tuple[Check, str]]) -> Iterator[tuple[Check, str]]:
    """A device that raises while it is checked has failed the check, and the others are still checked."""
    prefix = "" if device == "cpu" else f"{device} "
    try:
        for check, checksum in checks:
            yield replace(check, name=f"{prefix}{check.name}"), checksum
    except (RuntimeError, MemoryError) as problem:
        yield Check(
            name=f"{prefix}{what}", status=Status.FAIL, figure=str(problem).splitlines()[0],
            expected="to run without an error", next="Look at its driver's log (dmesg, nvidia-smi -q)",
        ), ""  # fmt: skip
