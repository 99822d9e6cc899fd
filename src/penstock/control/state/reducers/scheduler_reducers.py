"""What entries about deciding do to the state: the rules, what was decided, and what was set aside."""

from penstock.control.state.entries import Configured, Decided, DecisionFailed, Quarantined, Ticked
from penstock.control.state.folded_state import FoldedState, Reducers
from penstock.control.state.rules import new_scheduler, take_up
from penstock.core import EventError, InvariantError, Tick


def _configured(state: FoldedState, entry: Configured) -> None:
    """Rules change under the jobs that are there; what was promised is kept, or withdrawn and said so."""
    if state.settings is None:
        state.set_up(entry, new_scheduler(entry))
        return
    take_up(state.scheduler, entry)
    for record in state.jobs.values():
        if not record.over:
            record.tell(entry.at, f"the platform was set up anew: it runs under {entry.policy}")
            state.mark_changed(record.id)
    state.obey()
    state.settings = entry


def _decided(state: FoldedState, entry: Decided) -> None:
    try:
        state.scheduler.apply_decision(entry.decision)
    except EventError as error:
        raise InvariantError(f"a decision in the log does not fit what happened before it: {error}") from error
    state.obey()
    state.end_displacements()


def _quarantined(state: FoldedState, entry: Quarantined) -> None:
    if (record := state.jobs.get(entry.job_id or "")) is not None:
        record.tell(entry.at, f"{entry.kind} (event {entry.seq}) was set aside: {entry.why}")


def _decision_failed(_state: FoldedState, _entry: DecisionFailed) -> None:
    """It is in the log for whoever looks for it there."""


def _ticked(state: FoldedState, entry: Ticked) -> None:
    state.feed(Tick(entry.at))


SCHEDULER_REDUCERS: Reducers = {
    Configured: _configured,
    Decided: _decided,
    Quarantined: _quarantined,
    DecisionFailed: _decision_failed,
    Ticked: _ticked,
}
