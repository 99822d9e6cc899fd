"""Which world this worker is in, and how it gets from one to the next with the right state.

Everyone who enters a world says how many steps they have completed. The most advanced member is the source: whoever is
behind, newcomer or survivor, receives its state. So it does not matter whether a world ended at a planned border or
broke in the middle of a step that some had finished and some had not.
"""

import logging
import os
from typing import Any

import torch
import torch.distributed as dist

from penstock.core import Met, Ready, World
from penstock.runtime.agent.environment import WorkerEnvironment
from penstock.runtime.agent.link import AgentLink
from penstock.runtime.checkpoints.saving import Keeper
from penstock.runtime.checkpoints.state import Parts
from penstock.runtime.value_messages import broadcast_value
from penstock.runtime.world.group import (
    WorldLostError,
    WorldOverError,
    close_groups,
    decline,
    is_lost,
    noted_connections,
    open_group,
    open_side_group,
)
from penstock.runtime.world.timing import StepTiming
from penstock.runtime.world.transfer import equalize, receive_state, send_state, watch_state

_log = logging.getLogger(__name__)
_NOTHING = -1
"""Steps completed by a worker that holds no state worth keeping."""


class Membership:
    """This worker's way through the worlds of a run."""

    def __init__(
        self,
        place: WorkerEnvironment,
        link: AgentLink,
        parts: Parts,
        keeper: Keeper,
        *,
        timeout_s: float,
        patience_s: float,
    ) -> None:
        self.rank, self.size, self.generation = place.rank, place.size, place.generation
        self.completed = _NOTHING
        self.pace = StepTiming()
        self._place = place
        self._link = link
        self._parts = parts
        self._keeper = keeper
        self.timeout_s = timeout_s
        self._patience_s = patience_s

    @property
    def started(self) -> bool:
        return self.completed != _NOTHING

    def enter(self) -> bool:
        """Enter the first world: the agent's, torchrun's, or one's own."""
        if self.rank == 0:
            self._keeper.tidy()
        if self._link.has_agent:
            self._link.say(Ready(generation=self.generation))
            return self.advance()
        members = tuple(f"w{rank}" for rank in range(self.size))
        rendezvous = self._place.rendezvous if self.size > 1 else ""
        self._open(World(generation=0, rank=self.rank, size=self.size, members=members, rendezvous=rendezvous))
        return True

    def advance(self) -> bool:
        """Enter the next world that comes about; False if this worker is not in it."""
        while (world := self._await_world()) is not None:
            try:
                self._open(world)
            except WorldOverError:
                return False
            except (RuntimeError, ConnectionError, WorldLostError) as error:
                if not is_lost(error):
                    raise
                _log.warning("generation %d did not come about: %s", world.generation, error)
                self.close()
            else:
                return True
        return False

    def go_back(self, at_most: int) -> None:
        """Take over the newest checkpoint of at most so many steps, all members together; the later ones are gone."""
        self._keeper.settle()
        self.completed = _NOTHING
        self.completed = self._keeper.go_back(at_most, is_main=self.rank == 0)
        if not self._parts.sharded and self.size > 1:
            self._hand_over(0, list(range(1, self.size)))
        self._parts.drop_gradients()
        self.pace.resume()

    def hear_from_first(self, said: Any) -> Any:
        """Return what the first worker says, on every worker."""
        return broadcast_value(said, 0) if self.size > 1 else said

    def part(self) -> None:
        """Leave a world that is still whole."""
        self.rest()
        self.close()

    def rest(self) -> None:
        """Wait until everyone has got everything out of this world: a socket closed early takes data with it."""
        try:
            if self.size > 1:
                dist.barrier()
        except RuntimeError as error:
            if not is_lost(error):
                raise

    def end(self) -> None:
        """The process is about to end: whoever waits for it in a coming world should not."""
        order = self._link.order
        if isinstance(order, World):
            decline(order, self._place)
        close_groups()

    def close(self) -> None:
        """Drop the world as it is. Those who have not noticed that it is broken notice now."""
        self._keeper.hold()
        for model in self._parts.wrapped:
            model.close()
        close_groups()
        self._keeper.leave()

    def _await_world(self) -> World | None:
        if not self._link.has_agent:
            raise WorldLostError("a peer is gone and there is no agent that could form a new world")
        order = self._link.take_order(self._patience_s)
        if order is None:
            raise WorldLostError(f"no new world was announced within {self._patience_s:g} s")
        return order if isinstance(order, World) else None

    def _open(self, world: World) -> None:
        self.rank, self.size, self.generation = world.rank, world.size, world.generation
        # Libraries that look into the environment find the world they are in.
        os.environ.update(RANK=str(self.rank), WORLD_SIZE=str(self.size), PENSTOCK_GENERATION=str(self.generation))
        open_group(
            world,
            self._place,
            timeout_s=self.timeout_s,
            patience_s=self._patience_s,
            called_off=lambda: self._link.order is not None,
        )
        if self._parts.sharded:
            self._open_sharded()
        else:
            self._open_replicated()
        self._parts.watch()
        self.pace.resume()

    def _open_replicated(self) -> None:
        steps = self._compare()
        if max(steps) == _NOTHING:
            source = self._who_has_most()
            if self.rank == source:
                self.completed = self._keeper.load(self._keeper.find(is_main=True))
            behind = [rank for rank in range(self.size) if rank != source]
        else:
            source = steps.index(max(steps))
            behind = [rank for rank, step in enumerate(steps) if step < max(steps)]
        if behind:
            self._hand_over(source, behind)
        models = self._parts.wrapped
        for model in models:
            model.open(self.size, carries=len(models) == 1)  # of several, who knows which one a backward pass concerns
        self._keeper.begin_snapshots(is_main=self.rank == 0)

    def _who_has_most(self) -> int:
        """Of workers without state, the one whose machine remembers the newest; rank 0 also knows what is saved."""
        if self.size == 1:
            return 0
        steps = self._gather(float(self._keeper.latest_step(is_main=self.rank == 0)))
        return steps.index(max(steps))

    def _hand_over(self, source: int, behind: list[int]) -> None:
        if self.rank == source:
            send_state(self._parts, self.completed, source)
        elif self.rank in behind:
            # If the world breaks halfway through, what is here now is worth nothing.
            self.completed = _NOTHING
            self.completed = receive_state(self._parts, source)
        else:
            watch_state(self._parts, source)

    def _open_sharded(self) -> None:
        """New shards from the unsharded copies, then the values of the newest state there is, the same for everyone."""
        steps = self._compare()
        self._keeper.join(open_side_group())
        found = self._keeper.find(is_main=self.rank == 0)
        before = self._parts.parameters()
        for model in self._parts.sharded:
            if not found.any:
                equalize(list(model.template.state_dict().values()), steps.index(max(steps)))
            model.open(self.size)
        self._parts.follow(before)
        self.completed = _NOTHING
        self.completed = self._keeper.load(found)
        if found.nodes:
            group = open_side_group()
            with noted_connections():
                self._keeper.begin_shard_snapshots(found, group)

    def _compare(self) -> list[int]:
        """How far everyone is. Newcomers learn for how long training has been standing still."""
        steps = self._gather(float(self.completed))
        if self.rank == 0:
            self._link.say(Met(generation=self.generation))
        self.pace.share(self._gather(self.pace.stood_for()))  # now that everyone is here
        return [int(step) for step in steps]

    def _gather(self, mine: float) -> list[float]:
        own = torch.tensor([mine], dtype=torch.float64)
        everyone = [torch.zeros_like(own) for _ in range(self.size)]
        dist.all_gather(everyone, own)
        return [float(one) for one in everyone]
