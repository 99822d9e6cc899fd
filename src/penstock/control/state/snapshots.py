"""The state in the store, so that a start reads only what came after it.

A snapshot is the state as versioned data (JSON, compressed), after a numbered entry. The two newest are kept: one that
is damaged only costs the time to read the log since the one before.
"""

import json
import logging
import zlib
from collections.abc import Iterator

from penstock.control.state.platform_state import PlatformState
from penstock.control.state.state_data import VERSION, StillState, state_from_data
from penstock.control.state.store import StateSnapshot, Store
from penstock.core import CodecError, InputError
from penstock.tools import json_pieces

_log = logging.getLogger(__name__)
_LEVEL = 1
"""Fast rather than small."""


def usable(store: Store) -> Iterator[tuple[PlatformState, int]]:
    """The states of the snapshots that fit, each with the number of the entry it stands after; the newest first."""
    for found in store.snapshots.kept():
        _refuse_newer(found)
        if found.version != str(VERSION):
            continue
        try:
            state = state_from_data(json.loads(zlib.decompress(found.state)))
        except (CodecError, ValueError, zlib.error) as error:
            _log.warning("the snapshot after entry %d cannot be read: %s", found.seq, error)
            continue
        yield state, found.seq


def keep(store: Store, state: StillState, seq: int) -> None:
    """Put the state as it stands after entry ``seq`` where the next start finds it."""
    packing = zlib.compressobj(_LEVEL)
    packed = [packing.compress(text.encode()) for text in json_pieces(state.to_data())]
    whole = b"".join([*packed, packing.flush()])
    store.snapshots.keep(StateSnapshot(seq=seq, version=str(VERSION), state=whole))


def _refuse_newer(found: StateSnapshot) -> None:
    if found.version.isdigit() and len(found.version) < 10 and int(found.version) > VERSION:
        raise InputError(
            f"this data was written by a newer version of Penstock (format {found.version})",
            f"formats up to {VERSION}", "Install that version again, or start with another data directory",
        )  # fmt: skip
