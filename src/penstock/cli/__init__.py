"""What a person types. Every verb is one thin file; data goes to stdout, chatter to stderr."""

import errno
import os
import sys
from collections.abc import Sequence

import typer

from penstock.cli.verbs import add_verbs
from penstock.core import PenstockError

_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What keeps output from being written that no verb has to know of."""


def main() -> None:
    """Run the command line: 0 done, 1 went wrong, 2 cannot be done as asked, 130 interrupted."""
    try:
        try:
            _application(sys.argv[1:])(standalone_mode=True)
        finally:
            sys.stdout.flush()
    except PenstockError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            _complain(f"the output cannot be written: {error.strerror}")
        sys.exit(1)


def _complain(message: str) -> None:
    from penstock.cli.terminal.console import complain

    complain(message)


def _application(words: Sequence[str]) -> typer.Typer:
    """The command line for these words: a new one each time, which holds every verb once."""
    app = typer.Typer(
        name="penstock", help="Penstock meters accelerators onto training jobs.", add_completion=False,
        pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    app.callback(invoke_without_command=True)(_options)
    add_verbs(app, words)
    return app


def _options(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    ca: str = typer.Option(
        "", "--ca", help="Certificates that vouch for the server, in PEM (default: those of PENSTOCK_CA)."
    ),
) -> None:
    """Penstock meters accelerators onto training jobs."""
    if ca:
        os.environ["PENSTOCK_CA"] = ca
    if version:
        from importlib.metadata import version as installed

        print(f"penstock {installed('penstock')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
