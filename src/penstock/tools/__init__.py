"""Tools without words of their own: what several rooms need and no room is about."""

from penstock.tools.doors import lazy_door
from penstock.tools.files import (
    atomic_directory,
    atomic_file,
    partial_path,
    sync_directory,
    sync_file,
    write_atomically,
)
from penstock.tools.jit import compiled

__all__ = [
    "atomic_directory",
    "atomic_file",
    "compiled",
    "lazy_door",
    "partial_path",
    "sync_directory",
    "sync_file",
    "write_atomically",
]
