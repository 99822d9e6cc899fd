"""What a person types. Every verb is one thin file; data goes to stdout, chatter to stderr."""

import os
import sys

import typer

from penstock.cli import (
    config,
    dashboard,
    jobs,
    logs,
    nodes,
    plan,
    policies,
    predict,
    profile,
    profile_device,
    report,
    serve,
    simulate,
    steer,
    submit,
    token,
    top,
    trace,
)
from penstock.cli.console import complain
from penstock.core import PenstockError

app = typer.Typer(
    name="penstock",
    help="Penstock meters accelerators onto training jobs.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("submit")(submit.submit)
app.command("run")(submit.run)
app.command("quote")(submit.quote)
app.add_typer(profile_device.group(profile.command), name="profile")
app.command("predict")(predict.command)
app.command("ps")(jobs.ps)
app.command("show")(jobs.show)
app.command("logs")(logs.logs)
app.command("why")(jobs.why)
app.command("events")(jobs.events)
app.command("report")(report.command)
app.command("cancel")(steer.cancel)
app.command("pause")(steer.pause)
app.command("resume")(steer.resume)
app.command("top")(top.command)
app.command("dashboard")(dashboard.command)
app.add_typer(nodes.app, name="nodes")
app.command("serve")(serve.command)
app.add_typer(token.app, name="token")
app.command("config")(config.config)
app.command("completion")(config.completion)
app.command("plan")(plan.command)
app.command("simulate")(simulate.command)
app.command("policies")(policies.command)
app.add_typer(trace.app, name="trace")


def main() -> None:
    """Run the command line: 0 done, 1 went wrong, 2 cannot be done as asked, 130 interrupted."""
    try:
        app(standalone_mode=True)
    except PenstockError as error:
        complain(str(error))
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


@app.callback(invoke_without_command=True)
def _app(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Penstock meters accelerators onto training jobs."""
    if version:
        from importlib.metadata import version as installed

        print(f"penstock {installed('penstock')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
