"""A state as bytes and back.

The bytes are Python's own serialisation of the state, which fits one version of the code and no other: so the version
is a hash of the code itself, and after an upgrade the log is read from the beginning once. They lie in the platform's
own database, whose owner can start any command as a job anyway.
"""

import hashlib
import logging
import pickle
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

import penstock
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.store import Snapshot, Store

_log = logging.getLogger(__name__)
_ROOMS = ("core", "policies", "placement", "scheduler", "control")
FORMAT = "1"


@cache
def code_version() -> str:
    """A hash of everything that a state is made of: our code, Python's and NumPy's versions."""
    root, found = Path(penstock.__file__).parent, hashlib.sha256(FORMAT.encode())
    for room in _ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            found.update(str(file.relative_to(root)).encode() + file.read_bytes())
    found.update(f"{sys.version} {metadata.version('numpy')}".encode())
    return found.hexdigest()


def load(store: Store) -> tuple[PlatformState, int] | None:
    """The state of the newest snapshot and the entry it stands after; ``None`` where there is none that fits."""
    found = store.snapshots.newest(code_version())
    if found is None:
        return None
    try:
        state = pickle.loads(found.state)
    except Exception as error:
        _log.warning("the snapshot after entry %d cannot be read (%s); reading the whole log", found.seq, error)
        return None
    return (state, found.seq) if isinstance(state, PlatformState) else None


def keep(store: Store, state: PlatformState, seq: int) -> None:
    """Put the state as it stands after entry ``seq`` where the next start finds it."""
    pickled = pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL)
    store.snapshots.keep(Snapshot(seq=seq, version=code_version(), state=pickled))
