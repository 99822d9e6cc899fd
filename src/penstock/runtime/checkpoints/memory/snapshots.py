"""One worker's snapshots in memory: kept between checkpoints, held by peers, and gone on from after a loss."""

import logging
import platform
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch.distributed as dist

from penstock.core import InputError
from penstock.runtime.checkpoints.layout.chunks import Box, Chunk
from penstock.runtime.checkpoints.layout.resharding import (
    Origin,
    check_covered,
    fill,
    journeys,
    needs_of,
)
from penstock.runtime.checkpoints.memory.peers import NO_BYTES, PeerExchange
from penstock.runtime.checkpoints.memory.shards import (
    HeldShard,
    MemoryDirectory,
    ShardName,
    ShardRecord,
    ShardSlots,
    record_of,
)
from penstock.runtime.checkpoints.staging import Copy
from penstock.runtime.checkpoints.state import Snapshot, State
from penstock.runtime.value_codec import decode, encode
from penstock.runtime.value_messages import gather_values

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Set:
    """The snapshots of the present world, as far as this worker is concerned."""

    id: str
    rank: int
    size: int
    slots: ShardSlots
    exchange: PeerExchange | None
    is_first: bool = True


class MemorySnapshots:
    """What this worker keeps below a directory of its machine's memory."""

    def __init__(self, directory: Path) -> None:
        self.place = MemoryDirectory(directory)
        self._set: _Set | None = None

    @property
    def node(self) -> str:
        """The same for all workers that see the same memory."""
        return f"{platform.node()}:{self.place.path}"

    @property
    def has_world(self) -> bool:
        """Whether others wait for this worker's snapshots."""
        return self._set is not None and self._set.exchange is not None

    @property
    def has_peers(self) -> bool:
        return self._set is not None and self._set.exchange is not None and self._set.exchange.active

    def open(
        self, set_id: str = "", rank: int = 0, nodes: Sequence[str] = ("",), group: dist.ProcessGroup | None = None
    ) -> ShardSlots:
        """Begin the set of a world; returns where this worker's slots are. Without a group the worker is alone."""
        set_id = set_id or new_set_id()
        slots = self.place.slots(set_id, rank)
        exchange = None if group is None else PeerExchange(group, nodes, self.place, set_id)
        self._set = _Set(set_id, rank, len(nodes), slots, exchange)
        return slots

    @property
    def is_open(self) -> bool:
        return self._set is not None

    def leave(self) -> None:
        """The world is over; what it has left stays."""
        if self._set is not None and self._set.exchange is not None:
            self._set.exchange.close()
        self._set = None

    def keep(self, copy: Copy | None, snapshot: Snapshot, *, outlives_process: bool) -> None:
        """A copy that is complete becomes a snapshot; with peers, theirs too. Runs in the background.

        All members of a world call this for the same steps, also those who had no room for a copy.
        """
        own = self._set
        if own is None:
            return
        record = None if copy is None else self._record(own, copy, snapshot)
        if copy is not None and record is not None and outlives_process:
            own.slots.commit(copy.slot.index, record)
        if own.exchange is not None:
            own.exchange.exchange(record, NO_BYTES if copy is None else copy.bytes)
        if own.is_first:
            own.is_first = False
            self.place.keep_only(own.id)

    def _record(self, own: _Set, copy: Copy, snapshot: Snapshot) -> ShardRecord:
        name = ShardName(set=own.id, rank=own.rank, size=own.size, step=snapshot.step)
        return record_of(name, copy.layout.chunks, copy.layout.bytes, encode(snapshot.extras))

    def offers(self) -> dict[ShardName, HeldShard]:
        """The whole shards on this machine."""
        return {shard.record.name: shard for shard in self.place.shards()}

    def recall(self, origin: Origin, parts: State, group: dist.ProcessGroup | None) -> None:
        """Take over a snapshot, cut for the present world; all of its members call this together."""
        me = 0 if group is None else dist.get_rank(group)
        offers = self.offers()
        mine = {shard: offers[name] for shard, name in enumerate(origin.names) if origin.readers[shard] == me}
        told = gather_values({shard: held.record.to_row() for shard, held in mine.items()}, group)
        read = {shard: said for one in told for shard, said in one.items()}
        chunks = [[Chunk.from_row(row) for row in read[shard][0]] for shard in range(len(origin.names))]
        extras = decode(read[0][1])
        room = parts.room_for(list({chunk.key: chunk.spec for found in chunks for chunk in found}.values()))
        said = gather_values({key: (box.offset, box.extent) for key, box in needs_of(room).items()}, group)
        needs = [{key: Box(*box) for key, box in one.items()} for one in said]
        ways = journeys(chunks, origin.readers, needs)
        check_covered(needs[me], ways, me)
        fill(room, needs[me], {shard: held.read() for shard, held in mine.items()}, ways, group)
        parts.restore(room, extras)

    def remove(self) -> None:
        """The run is over for good, or saved where it is safer."""
        self.leave()
        self.place.remove()


def open_snapshots(directory: str | Path | None) -> MemorySnapshots | None:
    """Snapshots in memory, where there is a place for them; without one training goes on as well."""
    if not directory:
        return None
    try:
        return MemorySnapshots(Path(directory))
    except InputError as refusal:
        _log.warning("no snapshots stay in memory between checkpoints: %s", refusal)
        return None


def new_set_id() -> str:
    return uuid.uuid4().hex
