"""``penstock preflight``: is this node, or are these nodes, fit for work?"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from penstock.cli.connect import connect
from penstock.cli.terminal.console import interruptible, out, plain_table, say
from penstock.core import InputError

if TYPE_CHECKING:
    from penstock.diagnose import NodeReport, NodesReport


_FIT = {True: "yes", False: "no", None: "not checked"}


def command(
    then: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND]...", help="Run this if the node is fit, in its place.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto for whatever there is.")] = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="Contiguous inputs and short measurements only.")] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Try operators under torch.compile as well.")] = False,
    folder: Annotated[Path, typer.Option(help="Where the disk is measured.")] = Path(),
    disk_rate: Annotated[float | None, typer.Option(help="MB/s that the disk must write at least.")] = None,
    nodes: Annotated[str | None, typer.Option(help='Check these nodes, then pairs of them: "a,b,c".')] = None,
    through: Annotated[str, typer.Option(help='How they are reached: "ssh {node}", "srun -N1 -w {node}".')] = "",
    platform: Annotated[
        bool,
        typer.Option("--platform", help="With --nodes: by jobs of the platform, which drains those that fail."),
    ] = False,
    wait: Annotated[
        str | None,
        typer.Option(metavar="TIME", help='With --platform: wait for nodes in use, "2h"; else told as busy.'),
    ] = None,
    python: Annotated[str | None, typer.Option(help="Python on the nodes (default: this one).")] = None,
    pair_rate: Annotated[float, typer.Option(min=0.0, help="MB/s that an all-reduce of a pair must reach.")] = 0.0,
    drain: Annotated[bool, typer.Option("--drain", help="Take nodes that fail out of use, with the reason.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check this node before it trains: limits, network, clock, speeds, and whether operators compute right.

    With --nodes, the same on several nodes at once, their versions and clocks beside each other, and collectives in
    pairs of them. A command after -- runs if the node is fit. Ends with 1 if a node must not be used.
    """
    from penstock.diagnose import NodeCheck, shared_report

    if platform:
        beside = {"--through": through, "--python": python, "--pair-rate": pair_rate, "--compile": compiled,
                  "--disk-rate": disk_rate, "--drain": drain, "a command": then}  # fmt: skip
        _check_by_jobs(nodes, quick, folder, wait, beside, as_json)
    if wait is not None:
        raise InputError("--wait without --platform", "both, or neither", "Add --platform")
    if then and (nodes is not None or as_json):
        raise InputError("a command to run after --nodes or --json", "one of them", "Leave out the command")
    wanted = NodeCheck(
        device=device, quick=quick, compiled=compiled, folder=folder,
        disk_bytes_s=None if disk_rate is None else disk_rate * 1e6,
    )  # fmt: skip
    with interruptible():
        if nodes is None:
            report: Any = shared_report(wanted, say)
            unfit = {} if report.ok else {report.node: report.reason}
        else:
            report = _of_nodes(nodes, through, python, wanted.words, pair_rate)
            unfit = report.unfit
    if as_json:
        print(json.dumps(report.to_data(), indent=2))
    else:
        _print(report) if nodes is None else _print_nodes(report)
    if drain and unfit:
        _drain(unfit)
    if then and report.ok:
        _become(then)
    raise typer.Exit(0 if report.ok else 1)


def _check_by_jobs(
    nodes: str | None, quick: bool, folder: Path, wait: str | None, beside: Mapping[str, object], as_json: bool
) -> NoReturn:
    """What jobs of the platform find; what only a check from here can do is refused."""
    from penstock.client import check_nodes
    from penstock.core import PreflightLevel, parse_duration

    if nodes is None:
        raise InputError("--platform without --nodes", "the nodes to check", "`penstock nodes` lists them")
    if others := [name for name, value in beside.items() if value]:
        raise InputError(
            f"--platform with {', '.join(others)}", "--nodes, --wait, --quick, --folder and --json beside it"
        )
    level = PreflightLevel.QUICK if quick else PreflightLevel.FULL
    place = None if folder == Path() else str(folder.absolute())
    with connect() as client, interruptible():
        names = [name.strip() for name in nodes.split(",")]
        wait_s = 0.0 if wait is None else parse_duration(wait)
        found = check_nodes(client, names, level=level, wait_s=wait_s, say=say, folder=place)
    if as_json:
        print(json.dumps([each.to_data() for each in found], indent=2))
    else:
        table = plain_table("node", "fit", "job", "why not")
        table.columns[-1].justify, table.columns[-1].no_wrap, table.columns[-1].overflow = "left", False, "fold"
        for each in found:
            table.add_row(each.node, _FIT[each.fit], each.job, each.reason or "-")
        out.print(table)
    raise typer.Exit(0 if all(each.fit for each in found) else 1)


def _of_nodes(nodes: str, through: str, python: str | None, words: list[str], pair_rate: float) -> "NodesReport":
    from penstock.diagnose import NodesCheck, Reach

    reach = Reach(through=through, python=python) if python else Reach(through=through)
    names = [name.strip() for name in nodes.split(",")]
    return NodesCheck(nodes=names, reach=reach, words=words, least_bytes_s=pair_rate * 1e6).run(say)


def _drain(unfit: Mapping[str, str]) -> None:
    """Those that the platform knows; the reason stays with them."""
    with connect() as client:
        known = {node.name for node in client.nodes()}
        for node, reason in unfit.items():
            if node not in known:
                raise InputError(f"the platform has no node {node!r}", ", ".join(sorted(known)), "Drain it yourself")
            client.drain(node, reason=f"preflight: {reason}"[:1000], now=True, force=True)
            say(f"{node} is drained; penstock nodes undrain {node} takes it back")


def _become(command: list[str]) -> None:
    """This process is the command from here on: signals and exit codes are its own."""
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)
    except OSError as problem:
        raise InputError(f"{command[0]} cannot be run: {problem.strerror}", "a command that is there") from None


def _print(report: "NodeReport") -> None:
    table = plain_table("check", "status", "found", "expected")
    for column in table.columns[1:]:
        column.justify, column.no_wrap, column.overflow = "left", False, "fold"
    for check in report.checks:
        table.add_row(check.name, check.status, check.figure, check.expected or "-")
    out.print(table)
    for check in report.checks:
        if check.next:
            say(f"{check.name}: {check.next}")
    out.print(f"{report.node}: {'fit for work' if report.ok else 'not to be used'} ({report.seconds:.0f} s)")


def _print_nodes(report: "NodesReport") -> None:
    table = plain_table("node", "fit", "checks", "warnings", "seconds", "why not")
    table.columns[-1].justify, table.columns[-1].no_wrap, table.columns[-1].overflow = "left", False, "fold"
    for node in report.nodes:
        warnings = sum(check.status == "warn" for check in node.checks)
        table.add_row(node.node, "yes" if node.ok else "no", str(len(node.checks)), str(warnings),
                      f"{node.seconds:.0f}", node.reason or "-")  # fmt: skip
    out.print(table)
    if report.located is not None:
        links = ", ".join(" and ".join(link) for link in report.located.weak_links)
        out.print(
            f"{report.located.rounds} rounds of collectives" + (f"; weak: the link between {links}" if links else "")
        )
