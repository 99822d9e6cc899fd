"""Steering job arrays as a whole: one request, one commit, for every job of the array that is not over."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.control.platform.array_listing import array_members, newest_array
from penstock.control.platform.job_arrays import array_name
from penstock.control.platform.losses import pause_entry
from penstock.control.platform.resuming import resumed
from penstock.control.state.entries import Cancelled
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Principal
from penstock.wire import ConflictError, JobPhase, MissingError, PauseRequest, ResumeRequest


@dataclass(frozen=True, slots=True)
class ArrayCommands:
    """Takes requests about arrays on behalf of a principal; ``done`` is called after something was recorded."""

    journal: Journal
    done: Callable[[], None]

    def find(self, array: str, who: Principal) -> str:
        """Return the id of an array the caller may see, by its id or its name: one that is not over, else the newest.

        An array of another tenant is as unknown as one that never was.
        """
        active = self.active(who)
        if array in active or any(who.may_see(member.tenant) for member in array_members(self.journal, array)):
            return array
        named = [found for found, records in active.items() if array_name(records[0].submission.name) == array]
        if len(named) > 1:
            raise ConflictError(
                f"{len(named)} arrays are called {array!r}", f"the id of one of them: {', '.join(named)}",
                "penstock ps shows them",
            )  # fmt: skip
        if not named and (found := newest_array(self.journal, array, who.sees)) is not None:
            return found
        if not named:
            raise MissingError(
                f"There is no job array {array!r}", "the id or name of an array of yours",
                "penstock ps --all lists its jobs",
            )  # fmt: skip
        return named[0]

    def cancel(self, array: str, who: Principal) -> str:
        """End every job of an array that is not over. Cancelling an array that is cancelled changes nothing."""
        with self.journal.lock:
            found, members = self._members(array, who)
            if not members:
                self._must_be_cancelled(found)
                return found
            now = self.journal.now()
            self.journal.record_all([Cancelled(at=now, job_id=record.id, by=who.name) for record in members])
        self.done()
        return found

    def pause(self, array: str, who: Principal, how: PauseRequest | None = None) -> str:
        """Take every job of an array that is not over out of scheduling, or none if one would lose its work."""
        with self.journal.lock:
            found, members = self._live_members(array, who, "paused")
            if preparing := [record.id for record in members if not record.is_scheduled]:
                raise ConflictError(
                    f"{len(preparing)} jobs of array {found!r} wait or are being prepared and cannot be paused yet",
                    "jobs that have been prepared", "Wait until they are pending, or cancel the array",
                )  # fmt: skip
            now = self.journal.now()
            running = [each for each in members if each.mark is not JobPhase.PAUSED and not each.released]
            how = how or PauseRequest()
            self.journal.record_all([pause_entry(record, how, now, who.name) for record in running])
        self.done()
        return found

    def resume(self, array: str, who: Principal, how: ResumeRequest | None = None) -> str:
        """Let the paused jobs of an array ask again; if one of them would be refused, all of them stay paused."""
        with self.journal.lock:
            found, members = self._live_members(array, who, "resumed")
            now, stage = self.journal.now(), self.journal.state.scheduler.twin()
            paused = [record for record in members if record.mark is JobPhase.PAUSED]
            self.journal.record_all([resumed(record, how, stage, now, who.name) for record in paused])
        self.done()
        return found

    def active(self, who: Principal) -> dict[str, list[JobRecord]]:
        """Jobs that are not over and may be seen, by array."""
        with self.journal.reading() as state:
            return {
                array: list(members.values())
                for array, members in state.active.arrays.items()
                if who.may_see(next(iter(members.values())).job.tenant)
            }

    def _members(self, array: str, who: Principal) -> tuple[str, list[JobRecord]]:
        found = self.find(array, who)
        return found, self.active(who).get(found, [])

    def _live_members(self, array: str, who: Principal, what: str) -> tuple[str, list[JobRecord]]:
        found, members = self._members(array, who)
        if not members:
            raise ConflictError(
                f"every job of array {found!r} is over and none can be {what}", "an array with a job that is not over",
                "Submit it again",
            )  # fmt: skip
        return found, members

    def _must_be_cancelled(self, array: str) -> None:
        if all(member.state != JobPhase.CANCELLED for member in array_members(self.journal, array)):
            raise ConflictError(
                f"every job of array {array!r} is over and none can be cancelled",
                "an array with a job that is not over", "Submit it again",
            )  # fmt: skip
