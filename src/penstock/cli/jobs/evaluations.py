"""``penstock evaluations``: what evaluations of a job's checkpoints found."""

from typing import TYPE_CHECKING

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JobArgument, JsonOption
from penstock.cli.terminal.console import out, plain_table, say

if TYPE_CHECKING:
    from penstock.wire import EvaluationView

_MOST_SHOWN = 4


def evaluations(job: JobArgument, as_json: JsonOption = False) -> None:
    """What evaluations of a job's checkpoints found: step, state, results, and what got worse."""
    with connect() as client:
        found = client.evaluations(job)
    if as_json:
        print_json(found)
        return
    if not found.evaluations:
        say(f"no checkpoint of {found.name} has been evaluated; `evaluate:` in a job file asks for it")
        return
    table = plain_table("step", "evaluation", "state", "results")
    for each in found.evaluations:
        table.add_row(str(each.step), each.job_id, each.state, results_text(each))
    out.print(table)
    for line in worse_lines(found.evaluations):
        out.print(line, soft_wrap=True)
    say(f"as curves: penstock metrics {found.job_id}")


def results_text(each: "EvaluationView") -> str:
    """The first results, or why there are none."""
    if not each.results:
        return each.reason or "-"
    shown = [f"{name} {value:.4g}" for name, value in list(each.results.items())[:_MOST_SHOWN]]
    more = len(each.results) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def worse_lines(evaluations: "list[EvaluationView]") -> list[str]:
    """What got worse, the newest last."""
    return [f"step {each.step} got worse: {'; '.join(each.worse)}" for each in evaluations if each.worse]
