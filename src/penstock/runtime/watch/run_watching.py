"""All that one worker watches of its own run, for the loop: times of steps, the loss, and a profile now and then."""

import torch

from penstock.core import HotspotsSampled, LossPolicy
from penstock.runtime.agent.link import AgentLink
from penstock.runtime.checkpoints.saving import Keeper
from penstock.runtime.checkpoints.state import Parts
from penstock.runtime.watch.loss_guard import LossGuard
from penstock.runtime.watch.profile_sampler import ProfileSampler
from penstock.runtime.watch.step_clock import StepClock


class RunWatching:
    """Asked before and after every step. Nothing is measured for nobody: without an agent only the loss is watched."""

    def __init__(
        self, link: AgentLink, keeper: Keeper, device: torch.device, *, loss: LossPolicy, profiles: bool
    ) -> None:
        self.guard = LossGuard(loss, link, keeper)
        self.clock = StepClock(device)
        self._link = link
        self._sampler = ProfileSampler(device) if profiles and link.has_agent else None

    def begin(self, parts: Parts) -> None:
        """The loop begins with these models."""
        if not self._link.has_agent:
            return
        sharded = parts.sharded
        for shards in sharded:
            shards.time_collectives(self.clock.shard_waits)
        for model in parts.wrapped:
            if model not in sharded:
                self.clock.watch(model)

    def before_step(self, *, is_main: bool) -> None:
        if self._sampler is not None and is_main:
            self._sampler.before_step()

    def after_step(self, number: int) -> None:
        """A step is over, whatever became of it."""
        if self._sampler is None:
            return
        mean_s = self.clock.checkpoint_s / max(self.clock.steps, 1)
        if (found := self._sampler.after_step(number, checkpoint_s=mean_s)) is not None:
            self._link.say(HotspotsSampled(hotspots=found))

    def end(self) -> None:
        """The loop is over."""
        if self._sampler is not None:
            self._sampler.close()

    def tell_times(self, done: int) -> None:
        if self._link.has_agent and (times := self.clock.take(done)) is not None:
            self._link.time_steps(times)
