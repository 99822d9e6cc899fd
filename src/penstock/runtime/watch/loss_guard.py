"""What is done about a loss that goes wrong: telling, or going back to a healthy checkpoint without the bad batches.

Every worker judges every loss, which is the mean over the global batch and the same for all; but only what the first
worker wants counts, and it travels with the word of the next step, so all go back at the same border. (Newcomers know
fewer losses than the others: they could not decide alike.) While the loss is not healthy nothing is saved, so that a
healthy checkpoint stays the newest for as long as possible.
"""

import logging
from dataclasses import dataclass
from typing import Any

from penstock.core import LossFault, LossPolicy, LossWrong, PenstockError, StateRolledBack, clean_text
from penstock.runtime.agent.link import AgentLink
from penstock.runtime.checkpoints.saving import Keeper
from penstock.runtime.watch.loss_watch import LossVerdict, LossWatch
from penstock.runtime.watch.skipped_steps import SkippedSteps

_log = logging.getLogger(__name__)
MOST_ROLLBACKS = 3
"""Of one run, over all its attempts as far as its checkpoints tell; then it fails."""


class DivergedError(PenstockError):
    """Training went wrong again and again, and going back has not helped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """Where everybody goes: to the newest checkpoint of at most ``before`` steps, without steps ``skips`` to ``until``.

    ``hopeless``: nowhere; the run has been there too often.
    """

    before: int
    skips: int
    until: int
    fault: LossFault
    reason: str
    hopeless: bool = False

    def to_row(self) -> list[Any]:
        """As the first worker tells the others."""
        return [self.before, self.skips, self.until, self.fault.value, self.reason, self.hopeless]

    @classmethod
    def from_row(cls, row: list[Any]) -> "Rollback":
        before, skips, until, fault, reason, hopeless = row
        return cls(before=before, skips=skips, until=until, fault=LossFault(fault), reason=reason, hopeless=hopeless)


class LossGuard:
    """One worker's part in it; ``skipped`` belongs to the state of the run."""

    def __init__(self, policy: LossPolicy, link: AgentLink, keeper: Keeper) -> None:
        self.skipped = SkippedSteps()
        self._policy = policy
        self._link = link
        self._keeper = keeper
        self._watch = LossWatch()
        self._wanted: Rollback | None = None
        self._save_from: int | None = None

    @property
    def wanted(self) -> Rollback | None:
        """Where this worker wants everyone to go; only the first worker's wish counts."""
        return self._wanted

    @property
    def may_save(self) -> bool:
        """Whether the state is worth keeping, as far as its last loss tells."""
        return self._policy is LossPolicy.OFF or self._watch.is_healthy

    def must_save(self, step: int) -> bool:
        """Whether the bad batches have just been passed: what is known of them has to get onto the disk."""
        return self._save_from is not None and step >= self._save_from

    def saved(self, step: int) -> None:
        if self.must_save(step):
            self._save_from = None

    def note(self, step: int, loss: float, *, is_main: bool) -> None:
        """The loss of a step that is complete."""
        verdict = None if self._policy is LossPolicy.OFF else self._watch.note(step, loss)
        if verdict is None:
            return
        self._wanted = self._conclusion(verdict) if is_main else None
        if is_main and self._wanted is None:
            self._tell(verdict)
        if verdict.lasting and verdict.fault is LossFault.SPIKE and self._wanted is None:
            self._watch.forget()  # it is the level from now on

    def rolled_back(self, order: Rollback, step: int, *, is_main: bool) -> None:
        """The state is that of ``step`` again; training goes on from there."""
        self.skipped.add(order.skips, order.until)
        self._wanted, self._save_from = None, order.until + 2
        self._watch.forget()
        if is_main:
            _log.warning("%s: back to the checkpoint of step %d, without steps %d to %d", order.reason, step,
                         order.skips, order.until)  # fmt: skip
            self._link.say(
                StateRolledBack(step=step, skips=order.skips, until=order.until, fault=order.fault, reason=order.reason)
            )

    def _conclusion(self, verdict: LossVerdict) -> Rollback | None:
        rolls_back = self._policy is LossPolicy.ROLLBACK or (
            self._policy is LossPolicy.AUTO and verdict.fault is LossFault.NOT_FINITE
        )
        if not verdict.lasting or not rolls_back:
            return self._wanted
        hopeless = self.skipped.rollbacks >= MOST_ROLLBACKS
        if not hopeless and not self._keeper.has_before(verdict.first_bad):
            return None
        return Rollback(
            before=verdict.first_bad, skips=verdict.first_bad, until=verdict.last_bad, fault=verdict.fault,
            reason=str(verdict), hopeless=hopeless,
        )  # fmt: skip

    def _tell(self, verdict: LossVerdict) -> None:
        nowhere = ""
        if verdict.lasting and self._policy is not LossPolicy.TELL and verdict.fault is LossFault.NOT_FINITE:
            nowhere = f"; there is no checkpoint from before step {verdict.first_bad} to go back to"
        reason = clean_text(f"{verdict}{nowhere}")
        _log.warning("%s", reason)
        self._link.say(LossWrong(step=verdict.step, fault=verdict.fault, reason=reason))


def diverged(order: Rollback) -> DivergedError:
    """Why a run gives up."""
    return DivergedError(
        f"{order.reason}, after training went back {MOST_ROLLBACKS} times: look at the data of steps {order.skips} to"
        f" {order.until}, lower the learning rate, or clip gradients"
    )
