"""``penstock metrics``: what jobs logged, as a table, a drawing, JSON or CSV, or exported to other trackers."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table, say
from penstock.cli.terminal.curves import drawing, figure, sparkline
from penstock.client import MetricFormat
from penstock.core import InputError

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.wire import JobMetricsView, MetricView

_SPARK_CELLS, _FEWEST_CELLS = 24, 8
_NUMBERS_WIDTH = 47
"""Of the columns between the names and the courses."""
_CELLS, _LINES = 60, 10
_NEXT = {
    MetricFormat.CSV: "one line for each point",
    MetricFormat.MLFLOW: "look: MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {directory}",
    MetricFormat.TENSORBOARD: "look: tensorboard --logdir {directory}",
    MetricFormat.WANDB: "upload: wandb sync {directory}/offline-run-*",
}


def metrics(
    jobs: Annotated[list[str], typer.Argument(help="Jobs, by id, name or the beginning of an id.")],
    names: Annotated[
        list[str], typer.Option("--metric", "-m", metavar="NAME", help="Only this metric, drawn; may be given again.")
    ] = [],  # noqa: B006
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one line for each point.")] = False,
    export: Annotated[
        MetricFormat | None, typer.Option(help="Write files for another tracker, below the directory of --out.")
    ] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where --export writes.")] = None,
) -> None:
    """Metrics that jobs have logged: loss, accuracy, anything else; of several jobs side by side."""
    if as_json and as_csv:
        raise InputError("--json and --csv", "one of them")
    if (export is None) != (out_dir is None):
        raise InputError("--export without --out, or --out without --export", "both, or neither")
    with connect() as client:
        found = [client.metrics(job, *names) for job in jobs]
        _require_known(found, names)
        if export is not None and out_dir is not None:
            _export(client, found, export, out_dir)
            return
    if as_json:
        print_json(found)
    elif as_csv:
        from penstock.client import write_table

        write_table(found, sys.stdout)
    else:
        _print_table(found)
        for name in names:
            _draw(name, found)


def _require_known(found: Sequence["JobMetricsView"], names: Sequence[str]) -> None:
    for name in names:
        if not any(metric.name == name for job in found for metric in job.metrics):
            raise InputError(
                f"no job here has a metric {name!r}", "", "penstock metrics without --metric lists what there is"
            )


def _export(client: "Client", found: Sequence["JobMetricsView"], kind: MetricFormat, directory: Path) -> None:
    from penstock.client import export_metrics

    for job in found:
        print(export_metrics(kind, client.job(job.job_id), job, directory))
    say(_NEXT[kind].format(directory=directory))


def _print_table(found: Sequence["JobMetricsView"]) -> None:
    several = len(found) > 1
    table = plain_table("metric", *(["job"] if several else []), "last", "at step", "least", "most", "values", "course")
    rows = sorted(((metric.name, job, metric) for job in found for metric in job.metrics), key=lambda row: row[0])
    named = max((len(name) + (len(_called(job)) + 1 if several else 0) for name, job, _ in rows), default=0)
    cells = min(max(out.width - named - _NUMBERS_WIDTH, _FEWEST_CELLS), _SPARK_CELLS)
    for name, job, metric in rows:
        table.add_row(name, *([_called(job)] if several else []), *_columns(metric, cells))
    out.print(table)
    if not rows:
        say("no metrics yet; a script logs some with `penstock.elastic.log(val_acc=0.91)`")
        say("or by printing a line such as `penstock: step=120 val_acc=0.91`")


def _called(job: "JobMetricsView") -> str:
    return f"{job.name} ({job.job_id})"


def _columns(metric: "MetricView", cells: int) -> tuple[str, ...]:
    return (
        figure(metric.last), str(metric.steps[-1]), figure(metric.low), figure(metric.high), str(metric.count),
        sparkline(metric.steps, metric.values, cells).ljust(cells),
    )  # fmt: skip


def _draw(name: str, found: Sequence["JobMetricsView"]) -> None:
    for job in found:
        for metric in job.metrics:
            if metric.name == name:
                out.print(f"\n{name} of {_called(job)}, steps {metric.steps[0]} to {metric.steps[-1]}", soft_wrap=True)
                for line in drawing(metric.steps, metric.values, cells=_CELLS, lines=_LINES):
                    out.print(line, soft_wrap=True)
