"""Puts a server together: configuration, data directory, backend, control plane, API and dashboard."""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.serve.assembly import assembled
    from penstock.serve.backups import back_up_platform, restore_platform
    from penstock.serve.config import Config
    from penstock.serve.heaps import limit_heaps
    from penstock.serve.kubernetes.deployment import apply_installation, write_installation
    from penstock.serve.kubernetes.manifests import Installation
    from penstock.serve.recovery import sqlite_file
    from penstock.serve.server import serve
    from penstock.serve.settings import load_config

__all__ = [
    "Config",
    "Installation",
    "apply_installation",
    "assembled",
    "back_up_platform",
    "limit_heaps",
    "load_config",
    "restore_platform",
    "serve",
    "sqlite_file",
    "write_installation",
]

__getattr__ = lazy_door(__name__)
