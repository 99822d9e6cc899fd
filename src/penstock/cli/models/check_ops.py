"""``penstock check-ops``: the first wrong operator of a model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.terminal.console import interruptible, out, plain_table, say
from penstock.core import InputError, require
from penstock.tools import write_atomically

if TYPE_CHECKING:
    from penstock.diagnose import OperatorReport


def command(
    script: Annotated[str, typer.Option(help="A script with penstock_model, module:function or a network's name.")],
    batch: Annotated[int, typer.Option(min=1, help="Samples per step.")] = 4,
    steps: Annotated[int, typer.Option(min=1, help="Training steps to follow.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto for whatever there is.")] = "auto",
    precision: Annotated[
        str | None, typer.Option(help="fp32, tf32, bf16, fp16 (default: the script's, or fp32).")
    ] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="sgd, adamw, adamw-foreach (default: the script's, or adamw).")
    ] = None,
    clip: Annotated[float | None, typer.Option(min=0.0, help="Clip gradients to this norm.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write a script there that repeats the first wrong call.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Replay every operator of a model, forward, backward and update, against float64, and name the first wrong one."""
    require("torch", extra="runtime", why="penstock check-ops")
    if save is not None and not save.parent.is_dir():
        raise InputError(f"no folder {save.parent}", "a file in a folder that is there")
    from penstock.diagnose import check_model

    with interruptible():
        report = check_model(
            script, batch=batch, steps=steps, device=device, precision=precision, optimizer=optimizer, clip=clip
        )
    if save is not None:
        _save(report, save)
    if as_json:
        print(json.dumps(report.to_data(), indent=2))
    else:
        _print(report)
    raise typer.Exit(0 if report.ok else 1)


def _save(report: "OperatorReport", target: Path) -> None:
    """Only calls of operators can be repeated by themselves; a wrong update is one of Python."""
    from penstock.diagnose import repeating_script, shrunk

    calls = (defect.suspect.call for defect in report.defects if defect.counts)
    call = next((each for each in calls if each is not None), None)
    if call is None:
        say("there is no wrong call to repeat")
        return
    write_atomically(target, repeating_script(shrunk(call)))
    say(f"{target} repeats the first wrong call, made small")


def _print(report: "OperatorReport") -> None:
    if report.defects:
        table = plain_table("operator", "phase", "verdict", "first call", "wrong calls", "error", "inputs")
        for defect in report.defects:
            told = defect.suspect
            table.add_row(
                told.operator, told.phase, defect.verdict, str(told.number), str(told.calls), f"{told.error:.3g}",
                defect.inputs,
            )  # fmt: skip
        out.print(table)
    first = next((defect for defect in report.defects if defect.counts), None)
    out.print(f"{report.calls} calls of {len(report.coverage.operators)} operators: " + (
        f"the first wrong one is {first.suspect.operator}, {first.suspect.phase}" if first else "none is wrong"
    ))  # fmt: skip
    if report.coverage.first_not_finite:
        out.print(f"first result that is not finite: {report.coverage.first_not_finite}")
    for operator, why in sorted(report.coverage.unjudged.items()):
        say(f"not judged: {operator}: {why}")
