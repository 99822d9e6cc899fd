"""Backups of one server, by its configuration: where they go by default, and how one is put back."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.client import DataDir
from penstock.core import InputError
from penstock.serve.config import Config
from penstock.serve.recovery import CURVES, restore_into

if TYPE_CHECKING:
    from penstock.control import BackupSummary


def back_up_platform(config: Config, target: Path | None = None) -> "tuple[Path, BackupSummary]":
    """Everything the server of this configuration knows, as of now; without a target, among the data directory's own
    backups, where ``--recover`` finds it."""
    from penstock.control import back_up

    place = DataDir(config.data_dir)
    if target is None:
        target = place.path / "backups" / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.db"
        try:
            target.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InputError(f"{target.parent} cannot be made: {error.strerror}", "a data directory") from None
    return target, back_up(config.database_url, target, {CURVES: place.path / CURVES})


def restore_platform(config: Config, backup: Path) -> Path | None:
    """Put a backup where the server of this configuration looks, while none runs there; see :func:`restore_into`."""
    place = DataDir(config.data_dir)
    with place.held():
        return restore_into(config, place, backup)
