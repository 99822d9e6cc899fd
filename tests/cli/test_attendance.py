"""Staying with a job: what is done to prepare it is told while it is done."""

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.cli.submission import attendance
from penstock.wire import JobDetail

_PREPARATION = ["", "installing torch", "installing torch", "saved"]


class StandInClient:
    """Tells one state after the other; then the job has finished."""

    def __init__(self) -> None:
        self._told = iter([*(("preparing", said) for said in _PREPARATION), ("running", ""), ("finished", "")])

    def job(self, job_id: str) -> JobDetail:
        state, reason = next(self._told)
        now = datetime.now(UTC)
        return JobDetail(
            id=job_id, number=1, name="a", tenant="t", state=state, reason=reason, submitted_at=now, started_at=now
        )

    def follow_logs(self, job_id: str, **_: Any) -> Any:  # noqa: ARG002
        return iter(())


def test_preparation_is_told_line_by_line_and_the_end_is_the_jobs_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(attendance, "_POLL_S", 0.0)
    with pytest.raises(SystemExit) as ended:
        attendance.attend(StandInClient(), "j-1")  # type: ignore[arg-type]
    assert ended.value.code == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("preparing")]
    assert lines == ["preparing: installing torch", "preparing: saved"]
