"""Changing a job that waits or runs: what is asked for anew is answered first, and only then changed."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.control.future.quoting import quote_amended
from penstock.control.platform.quotas import Quotas
from penstock.control.state.active_jobs import array_of
from penstock.control.state.entries import Edited
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.core import Amendment, BestEffort, Deadline, EventError, Quote, Verdict, format_duration
from penstock.wire import ConflictError, JobPhase, stamp

if TYPE_CHECKING:
    from penstock.spec import JobEdit


def edit_entry(
    values: Mapping[str, Any], record: JobRecord, state: PlatformState, quotas: Quotas, now: float, by: str
) -> Edited:
    """What an edit is in the log; raises where it is bad input or cannot be promised, and changes nothing."""
    from penstock.spec import read_edit

    edit, spec = read_edit(values), record.submission.spec
    if edit.name is not None and array_of(record.id) is not None:
        raise ConflictError(
            f"job {record.id!r} is called after its array", "another name for a job of no array", "Leave name out"
        )
    amendment = edit.amendment(spec, now)
    quotas.fitted(amendment.applied_to(record.job))
    if record.is_scheduled:
        _must_fit(record, state, amendment, now)
    return Edited(
        at=now, job_id=record.id, amendment=amendment, spec=edit.applied_to(spec),
        name=edit.name or record.submission.name, what=_described(edit, amendment, now), by=by,
    )  # fmt: skip


def _must_fit(record: JobRecord, state: PlatformState, amendment: Amendment, now: float) -> None:
    try:
        state.scheduler.amended(record.id, amendment)
    except EventError as error:
        raise ConflictError(
            str(error), "bounds that the cluster can hold", "penstock nodes lists what there is"
        ) from None
    _must_keep_its_work(record, amendment)
    if not amendment.asks_again or record.mark is JobPhase.PAUSED:
        return
    answer = quote_amended(state.scheduler.twin(), record.id, amendment, now)
    if answer is not None and answer.verdict is Verdict.DEFERRED and _is_tighter(record, amendment):
        raise ConflictError(
            f"the new deadline cannot be answered now: {answer.reason}",
            "one that can be promised now, or is later than before",
            "Nothing was changed and the deadline before still counts; ask again when that is over",
        )
    if answer is not None and _is_worse(record.quote, answer, amendment):
        raise ConflictError(f"it would not be promised: {answer.reason}", *_way_out(answer))


def _must_keep_its_work(record: JobRecord, amendment: Amendment) -> None:
    """A run that would begin again is not stopped for the sake of its bounds."""
    if record.grant is None or record.job.resumable or amendment.at_least is None:
        return
    width, most = record.grant.width, amendment.at_most
    if width < amendment.at_least or (most is not None and width > most):
        raise ConflictError(
            f"job {record.id!r} runs on {width} devices and cannot resume: with other devices it would begin again",
            f"bounds that {width} lies in", "Say resumable: true in its job file, or cancel and resubmit it",
        )  # fmt: skip


def _is_tighter(record: JobRecord, amendment: Amendment) -> bool:
    """Whether a deadline that counts would be given up for an earlier one."""
    return isinstance(amendment.goal, Deadline) and amendment.goal.at < record.job.deadline < math.inf


def _is_worse(before: Quote | None, answer: Quote, amendment: Amendment) -> bool:
    """Whether a deadline would be lost that somebody asks for or has been promised."""
    was_promised = before is not None and before.verdict is Verdict.PROMISED
    if answer.verdict is Verdict.PROMISED or isinstance(amendment.goal, BestEffort):
        return False
    return was_promised or answer.verdict is Verdict.REFUSED


def _way_out(answer: Quote) -> tuple[str, str]:
    offer = stamp(answer.counter_offer)
    if offer is None:
        return "a deadline that can be promised", "Nothing was changed; try a later deadline or wider bounds"
    return f"{offer:%Y-%m-%d %H:%M:%S} UTC or later", "Nothing was changed; try that deadline"


def _described(edit: "JobEdit", amendment: Amendment, now: float) -> str:
    said = []
    if isinstance(amendment.goal, Deadline):
        said.append(f"due in {format_duration(amendment.goal.at - now)}")
    elif amendment.goal is not None:
        said.append("at best effort")
    if amendment.at_least is not None:
        most = "" if amendment.at_most is None else amendment.at_most
        said.append(f"{amendment.at_least}..{most} devices")
    if amendment.priority is not None:
        said.append(f"priority {amendment.priority}")
    if edit.name is not None:
        said.append(f"called {edit.name}")
    return ", ".join(said)
