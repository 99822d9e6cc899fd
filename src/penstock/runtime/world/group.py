"""Process groups that can be given up: opening one can be called off, and a broken one fails everywhere at once.

When a worker dies, only its neighbours in a collective notice; the others would wait for a timeout. So whoever notices
hangs up on everyone, the next worker sees that, and within milliseconds all survivors know. Torch closes a group's
connections only when nothing refers to it any more, so they are noted when they are made and shut down by hand.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch._C._distributed_c10d import FileStore, HashStore, PrefixStore, Store

from penstock.core import PenstockError, World
from penstock.runtime.agent.environment import WorkerEnvironment
from penstock.runtime.agent.network import choose_interface
from penstock.runtime.agent.store import AgentStore
from penstock.runtime.world.accelerators import collective_backend

_POLL_S = 0.002
_OVER = "over"
_DECLINE_S = 5.0
_MARKS = (
    "gloo", "NCCL", "Application timeout caused pair closure", "Connection closed by peer", "Connection reset by peer",
    "Broken pipe", "Socket Timeout", "Timed out waiting",
)  # fmt: skip
"""Gloo's failures are plain RuntimeErrors: only their words tell them from a mistake in the script."""


_connections: set[tuple[str, int]] = set()


class WorldLostError(PenstockError):
    """The world cannot go on: a member is gone, or a newer world was announced."""


class WorldOverError(PenstockError):
    """The run is finished: a world that was announced will not be needed."""


def is_lost(error: BaseException | None) -> bool:
    """Whether an error says that a peer is gone, and not that the script is wrong."""
    if isinstance(error, WorldLostError | dist.DistError | ConnectionError):
        return True
    return isinstance(error, RuntimeError) and any(mark in str(error) for mark in _MARKS)


def open_group(
    world: World, place: WorkerEnvironment, *, timeout_s: float, patience_s: float, called_off: Callable[[], bool]
) -> None:
    """Join the default process group of a world; raises WorldLostError if that is called off meanwhile."""
    if place.agent is not None:
        choose_interface(place.agent, os.environ)
    store = _store(world, place, timeout_s)
    shared = False
    if store is not None and world.size > 1:
        _wait_for_members(store, world, place.worker, patience_s, called_off)
        shared = _share_a_device(store, world)
    with noted_connections():
        dist.init_process_group(
            backend=collective_backend(shared),
            store=PrefixStore("group", store) if store is not None else None,
            init_method=None if store is not None else "env://",
            rank=world.rank,
            world_size=world.size,
            timeout=timedelta(seconds=timeout_s),
        )


def open_side_group() -> dist.ProcessGroup:
    """A second group of the same members, for a thread that must not get between the collectives of training."""
    with noted_connections():
        group: dist.ProcessGroup = dist.new_group(backend="gloo")
    return group


@contextmanager
def noted_connections() -> Iterator[None]:
    """What is connected meanwhile belongs to the world, and is hung up on when that ends."""
    before = _sockets()
    yield
    _connections.update(_sockets() - before)


def decline(world: World, place: WorkerEnvironment) -> None:
    """Tell those who wait for us in a world that there is nothing left to do in it."""
    if world.size > 1:
        with suppress(OSError):
            store = _store(world, place, _DECLINE_S)
            if store is not None:
                store.set(_OVER, "1")


def close_groups() -> None:
    """Leave all process groups without asking anyone; harmless when there are none."""
    if not dist.is_initialized():
        return
    _hang_up()
    for group in list(c10d._world.pg_map):
        for device in group._device_types:
            group._get_backend(device).abort()
    dist.destroy_process_group()


def _hang_up() -> None:
    for _, handle in _connections & _sockets():
        with suppress(OSError), socket.socket(fileno=os.dup(handle)) as connection:
            connection.getpeername()  # an error here: a listening socket, which gloo must not lose
            connection.shutdown(socket.SHUT_RDWR)
    _connections.clear()


def _sockets() -> set[tuple[str, int]]:
    """Inode and handle of every open socket; none where the system does not show them."""
    found: set[tuple[str, int]] = set()
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{name}")
                if target.startswith("socket:"):
                    found.add((target, int(name)))
    return found


def _store(world: World, place: WorkerEnvironment, timeout_s: float) -> Store | None:
    """Where the agent says that the world meets; nothing where torchrun's own variables say it all."""
    if world.rendezvous == "env://":
        return None
    if world.size == 1:
        return HashStore()
    if place.agent is not None and world.rendezvous == "agent:":
        return AgentStore.open(place.agent, place.worker, place.secret, world.generation, timeout_s)
    return FileStore(world.rendezvous.removeprefix("file:"), world.size)


def _share_a_device(store: Store, world: World) -> bool:
    """Whether two members compute on one device: NCCL refuses that, gloo does not."""
    return len({store.get(f"here/{member}") for member in world.members}) < world.size


def _device_name() -> str:
    return str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid) if torch.cuda.is_available() else ""


def _wait_for_members(
    store: Store, world: World, worker: str, patience_s: float, called_off: Callable[[], bool]
) -> None:
    store.set(f"here/{worker}", _device_name() or worker)
    everyone = [f"here/{member}" for member in world.members]
    deadline = time.monotonic() + patience_s
    while not store.check(everyone):
        if store.check([_OVER]):
            raise WorldOverError(f"the run ended before generation {world.generation} began")
        if called_off():
            raise WorldLostError(f"generation {world.generation} was replaced by a newer one")
        if time.monotonic() > deadline:
            raise WorldLostError(f"generation {world.generation} did not come together within {patience_s:g} s")
        time.sleep(_POLL_S)
