"""What a backend says to its agents on their command line."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.agent.parts import PartEngine
from penstock.backends.agent.processes import OURSELVES, Identity
from penstock.core import AgentAddress
from penstock.tools import UnixUser


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Where to listen for workers, who starts them if not the agent, as whom.

    ``certificate_of`` is the directory of the platform whose certificate the agent shows to workers of other machines.
    """

    listen: AgentAddress | None = None
    engine: PartEngine | None = None
    identity: Identity = OURSELVES
    clock_offset: float | None = None
    certificate_of: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCommand:
    """A whole command line: the run, how its process lives, and the options of the agent in it."""

    run_dir: Path
    agent: AgentOptions
    detach: bool
    below_subreaper: bool
    reads_secrets: bool


def parse_command(argv: list[str] | None) -> AgentCommand:
    """The command of this process, whose files are its own from now on; workers get the mask that it had before."""
    given = _parser().parse_args(argv)
    agent = AgentOptions(
        listen=given.listen, engine=given.parts, identity=Identity(given.run_as, os.umask(0o077)),
        clock_offset=given.clock_offset, certificate_of=given.certificate_of,
    )  # fmt: skip
    return AgentCommand(
        run_dir=given.run_dir.resolve(), agent=agent, detach=given.detach,
        below_subreaper=given.detach or given.kept, reads_secrets=given.secrets,
    )  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="penstock-agent", description="Run the workers of one run.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--detach", action="store_true", help="live on in a session of its own")
    parser.add_argument("--listen", type=AgentAddress.parse, help="where workers reach the agent: tcp://host:port")
    parser.add_argument("--certificate-of", type=Path, help="whose certificate encrypts the line to workers")
    parser.add_argument("--parts", type=PartEngine.from_json, help="who starts workers elsewhere, in JSON")
    parser.add_argument("--run-as", type=UnixUser.named, help="whose processes the workers are")
    parser.add_argument("--clock-offset", type=float, help="what to add to the machine's clock for the server's time")
    parser.add_argument("--kept", action="store_true", help="below a process that ends what the agent leaves behind")
    parser.add_argument("--secrets", action="store_true", help="values of secrets by name, in JSON on standard input")
    return parser
