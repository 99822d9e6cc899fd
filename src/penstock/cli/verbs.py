"""The verbs of the command line, each loaded when it is typed.

``penstock --help`` needs one line about every verb and ``penstock ps`` the code of one, so neither waits for the
others to be imported. The lines here are the beginnings of the verbs' own descriptions.
"""

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import typer

COMPLETING = "_PENSTOCK_COMPLETE"
"""Set by a shell that asks for completions, for which every verb is needed with its options."""


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb is defined: a function, or a typer application that has verbs of its own."""

    module: str
    attribute: str
    summary: str

    def load(self) -> Any:
        return getattr(importlib.import_module(f"penstock.cli.{self.module}"), self.attribute)

    def described(self) -> Callable[[], None]:
        """A command with the name and the summary alone."""

        def listed() -> None: ...

        listed.__doc__ = self.summary
        return listed


VERBS = {
    "submit": Verb("submission.submit", "submit", "Submit a job and say what it is promised."),
    "run": Verb("submission.run", "run", "Submit a job, follow its output, and end with its exit code."),
    "example": Verb("submission.example", "example", "Write a training script that comes with Penstock"),
    "quote": Verb("submission.quote", "quote", "Say what a job would be promised now, without submitting it."),
    "profile": Verb(
        "models.profile_device", "app", "Measure a job on a few device counts, or the device of this machine."
    ),
    "predict": Verb("models.predict", "command", "Predict how long an iteration takes, what it needs and draws"),
    "ps": Verb("jobs.ps", "ps", "List jobs, the newest first"),
    "show": Verb("jobs.show", "show", "Everything about one job."),
    "logs": Verb("jobs.logs", "logs", "Print a job's output, all workers together unless one is named."),
    "checkpoints": Verb("jobs.checkpoints", "checkpoints", "List the checkpoints of a job: step, time, size"),
    "files": Verb("jobs.files", "files", "List the files that a job saved, or fetch them with --out."),
    "shell": Verb("jobs.shell", "shell", "Open a shell on devices, as a job with an end"),
    "notebook": Verb("jobs.notebook", "notebook", "Open a notebook on devices, as a job with an end"),
    "exec": Verb("jobs.exec", "execute", "Run a command beside the workers of a running job"),
    "why": Verb("jobs.why", "why", "Why a job stands where it stands: what happened to it, and what comes next."),
    "doctor": Verb("jobs.doctor", "doctor", "Name the cause of a failure, with the evidence and what to do."),
    "signatures": Verb(
        "platform.signatures", "app", "What the doctor knows failures by: list, add and test signatures."
    ),
    "metrics": Verb("jobs.metrics", "metrics", "Metrics that jobs have logged: loss, accuracy, anything else"),
    "evaluations": Verb("jobs.evaluations", "evaluations", "What evaluations of a job's checkpoints found"),
    "hotspots": Verb("jobs.hotspots", "hotspots", "Where the time of a job's steps goes"),
    "events": Verb("jobs.events", "events", "The log: what was recorded, in order."),
    "report": Verb("platform.report", "command", "Promises kept and missed, device time and energy, failures, resizes"),
    "wait": Verb(
        "jobs.wait", "wait", "Wait until jobs are over, and end with the exit code of the first that did not finish."
    ),
    "resubmit": Verb(
        "jobs.resubmit", "resubmit", "Submit the job file of a job again, as a new job with checkpoints of its own."
    ),
    "edit": Verb("jobs.edit", "edit", "Change the deadline, devices, priority or name of a job that waits or runs."),
    "cancel": Verb("jobs.cancel", "cancel", "End jobs for good"),
    "pause": Verb("jobs.pause", "pause", "Take jobs, or all jobs of an array, out of scheduling"),
    "resume": Verb("jobs.resume", "resume", "Resume a paused job, or the paused jobs of an array."),
    "top": Verb("platform.top", "command", "Devices, jobs with promise and forecast, and the news, live."),
    "dashboard": Verb("platform.dashboard", "command", "Open the dashboard."),
    "deploy": Verb("platform.deploy", "app", "Install the platform in a cluster."),
    "nodes": Verb("platform.nodes", "app", "What there is to run on; drain and undrain."),
    "status": Verb("platform.status", "status", "Say whether a server runs and how it is, without starting one."),
    "stop": Verb("platform.stop", "stop", "Stop the server of this machine."),
    "serve": Verb("platform.serve", "command", "Run the platform until Ctrl-C."),
    "clean": Verb("platform.clean", "clean", "Remove checkpoints of jobs that are over, by age and size"),
    "backup": Verb("platform.backup", "command", "Write the whole database, as of one moment, to a file."),
    "restore": Verb("platform.restore", "command", "Put a backup in the place of the database."),
    "token": Verb("platform.token", "app", "Make, list and revoke tokens (admins only)."),
    "secrets": Verb("platform.secrets", "app", "Store secrets for jobs; a job file names those it needs."),
    "quota": Verb("platform.quota", "app", "What tenants may have at most: show it, set it."),
    "tenants": Verb("platform.tenants", "app", "What tenants share, lend, borrow and hold: show it, set it."),
    "policy": Verb("platform.policy", "app", "The policy in force: show it, switch it."),
    "audit": Verb("platform.audit", "audit", "Who did what, when, from where, and how it went (admins only)."),
    "config": Verb("platform.config", "config", "Show which settings are in effect and where things are kept."),
    "completion": Verb(
        "platform.completion", "completion", "Print a completion script: `penstock completion bash >> ~/.bashrc`."
    ),
    "preflight": Verb("platform.preflight", "command", "Check this node before it trains"),
    "check-ops": Verb("models.check_ops", "command", "Replay every operator of a model"),
    "plan": Verb("models.plan", "command", "Find how to split a model over devices"),
    "data": Verb("models.data", "app", "Pack text into tokens for training; look at them, check them."),
    "simulate": Verb(
        "study.simulate", "command", "Replay a trace under several policies and compare what becomes of the jobs."
    ),
    "whatif": Verb("study.whatif", "command", "Replay the server's own past under other rules"),
    "analyze": Verb("study.analyze", "command", "Say what jobs tell about a cluster: use, waiting, sizes, failures"),
    "sweep": Verb("study.sweep", "command", "Compare policies over loads, clusters, wrong curves and seeds"),
    "policies": Verb("study.policies", "command", "List the policies, with where they come from"),
    "trace": Verb("study.trace", "app", "Look at traces, make them, convert them."),
}


def add_verbs(app: typer.Typer, words: Sequence[str]) -> None:
    """All verbs; only the one that ``words`` begin with is loaded, unless a shell asks for completions."""
    typed = next((word for word in _without_values(words) if not word.startswith("-")), "")
    for name, verb in VERBS.items():
        is_wanted = name == typed or COMPLETING in os.environ
        command = verb.load() if is_wanted else verb.described()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)


def _without_values(words: Sequence[str]) -> Iterator[str]:
    """What was typed, less what belongs to the one option before a verb that has a value."""
    rest = iter(words)
    for word in rest:
        if word == "--ca":
            next(rest, None)
        else:
            yield word
