"""``penstock doctor``: why something failed, and what to do about it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, say
from penstock.core import InputError

if TYPE_CHECKING:
    from penstock.core import Diagnosis

_OF_LOGS = (".log", ".txt", ".out", ".err", ".gz")
WHAT = "A failed job; or logs: files, directories of them (one file per rank, a kernel log, …), - for standard input."


def doctor(
    what: Annotated[list[str], typer.Argument(help=WHAT, metavar="JOB | PATH...")],
    exit_code: Annotated[
        int | None, typer.Option("--exit-code", min=-64, max=255, help="What the failed process ended with.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Name the cause of a failure, with the evidence and what to do. Logs are read here, without any server."""
    if "" in what:
        raise InputError("'' names no job and no path", WHAT, "Is a shell variable unset?")
    diagnosis = _of_job(what[0]) if _names_job(what) else _of_logs(what, exit_code)
    if as_json:
        from penstock.core import plain

        print(json.dumps(plain(diagnosis), indent=2))
        return
    for line in diagnosis_lines(diagnosis):
        out.print(line, soft_wrap=True)


def _names_job(what: list[str]) -> bool:
    """Return True if the argument names a job rather than a path."""
    first = Path(what[0])
    is_word = len(what) == 1 and what[0] != "-" and "/" not in what[0] and first.suffix not in _OF_LOGS
    return is_word and not first.exists()


def _of_logs(paths: list[str], exit_code: int | None) -> "Diagnosis":
    from penstock.client import default_data_dir
    from penstock.diagnose import Doctor, RunFacts, WorkerEnd, catalogue_with, log_sources

    for path in paths:
        if "/" not in path and Path(path).is_dir():
            say(f"reading the logs in the directory {path}, not a job of that name: its id names the job")
    ends = () if exit_code is None else (WorkerEnd(code=exit_code),)
    return Doctor(catalogue_with(default_data_dir())).diagnose(log_sources(paths), RunFacts(ends=ends))


def _of_job(job: str) -> "Diagnosis":
    from penstock.cli.connect import connect

    with connect() as client:
        found = client.job(job)
    if found.diagnosis is None:
        raise InputError(
            f"{job} ({found.state}) has not failed", "a job with a failed run, or paths of logs",
            f"`penstock why {job}` says where it stands",
        )  # fmt: skip
    return found.diagnosis.as_diagnosis()


def diagnosis_lines(diagnosis: "Diagnosis") -> list[str]:
    """A diagnosis for a terminal: the cause first."""
    sure = f" ({diagnosis.confidence:.0%} sure)" if diagnosis.known else ""
    lines = [f"cause: {diagnosis.cause}", f"category: {diagnosis.category}{sure}"]
    if diagnosis.culprit:
        lines.append(f"culprit: {diagnosis.culprit}")
    lines += [f"action: {diagnosis.action}. {diagnosis.fix}" if diagnosis.fix else f"action: {diagnosis.action}"]
    lines += [f"  | {evidence}" for evidence in diagnosis.evidence]
    lines += [f"similar: {address}" for address in diagnosis.similar]
    return lines
