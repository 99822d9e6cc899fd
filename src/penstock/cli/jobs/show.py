"""``penstock show``: everything about one job."""

import time

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JobArgument, JsonOption
from penstock.cli.jobs.doctor import diagnosis_lines
from penstock.cli.jobs.evaluations import results_text, worse_lines
from penstock.cli.terminal.console import out
from penstock.cli.terminal.format import (
    answer_lines,
    bar,
    clock,
    deadline_line,
    share_done,
    until_lines,
    usage_lines,
    value_lines,
)

_MOST_EVALUATIONS = 5


def show(job: JobArgument, as_json: JsonOption = False) -> None:
    """Everything about one job."""
    with connect() as client:
        detail = client.job(job)
        evaluated = client.evaluations(detail.id).evaluations if "evaluate" in detail.spec else []
    if as_json:
        print_json(detail)
        return
    from penstock.wire import NO_PROGRESS, OVER, promise_words, tells_nothing

    out.print(f"{detail.id}  {detail.name}  {detail.state}  {bar(share_done(detail))}")
    out.print(
        f"submitted {clock(detail.submitted_at)}, started {clock(detail.started_at)}, ended {clock(detail.ended_at)}"
    )
    if detail.deadline is not None:
        settled = promise_words(detail)
        out.print(deadline_line(detail.deadline, settled if settled or detail.state in OVER else None))
    for line in value_lines(detail):
        out.print(line)
    for line in answer_lines(detail):
        out.print(line, soft_wrap=True)
    if (progress := detail.progress) is not None and progress.step is not None:
        loss = f", loss {progress.loss:.4g}" if progress.loss is not None else ""
        saved = f", saved at step {progress.saved_step}" if progress.saved_step else ""
        saved = saved or ("" if detail.state in OVER else ", nothing saved yet")
        out.print(f"step {progress.step} of {progress.total or round(progress.work)}{loss}{saved}")
    elif tells_nothing(detail, time.time()):
        out.print(f"progress: {NO_PROGRESS}", soft_wrap=True)
    for line in until_lines(detail):
        out.print(line, soft_wrap=True)
    for each in evaluated[-_MOST_EVALUATIONS:]:
        out.print(f"evaluated at step {each.step} ({each.state}): {results_text(each)}", soft_wrap=True)
    for line in worse_lines(evaluated):
        out.print(line, soft_wrap=True)
    for line in usage_lines(detail):
        out.print(line, soft_wrap=True)
    for notice in detail.notices:
        out.print(f"seen: {notice}", soft_wrap=True)
    for stint in detail.history:
        until = clock(stint.until) if stint.until else "now"
        out.print(f"{clock(stint.since)} to {until}: {len(stint.devices)} x {stint.kind} {stint.devices}")
    if detail.diagnosis is not None:
        for line in diagnosis_lines(detail.diagnosis.as_diagnosis()):
            out.print(line, soft_wrap=True)
    if detail.reason:
        out.print(f"reason: {detail.reason}", soft_wrap=True)
    for line in detail.tail:
        out.print(f"  | {line}", soft_wrap=True)
