"""``penstock checkpoints``: what a job can go on from."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JobArgument, JsonOption
from penstock.cli.terminal.console import out, plain_table, say
from penstock.cli.terminal.format import clock
from penstock.core import InputError, format_bytes, is_url, require
from penstock.wire import CheckpointList


def checkpoints(
    job: JobArgument,
    verify: Annotated[bool, typer.Option("--verify", help="Compute every checksum, which reads all of it.")] = False,
    export: Annotated[
        Path | None, typer.Option("--export", help="Write the weights to this directory as safetensors files.")
    ] = None,
    hf: Annotated[
        str | None,
        typer.Option("--hf", help="With --export: under Hugging Face's names of a family: llama, gpt2."),
    ] = None,
    as_torch: Annotated[
        bool, typer.Option("--torch", help="With --export: as a directory of torch.distributed.checkpoint instead.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option("--config", help="With --export: a JSON file of what config.json should say.")
    ] = None,
    step: Annotated[
        int | None, typer.Option("--step", help="With --export: of which checkpoint; of the newest if left out.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the checkpoints of a job: step, time, size, where they are, whole and verified; or export its weights."""
    if export is None and (hf or config or as_torch or step is not None):
        raise InputError(
            "--hf, --torch, --config or --step without --export", "an export that they say more about", "Add it"
        )
    if as_torch and (hf or config):
        raise InputError("--torch with --hf or --config", "one kind of export", "Leave one of them out")
    with connect() as client:
        found = client.checkpoints(job, verify=verify)
    if export is not None:
        _export(found, export, hf=hf, config=config, step=step, as_torch=as_torch)
        return
    if as_json:
        print_json(found)
        return
    if not found.checkpoints:
        say(f"nothing saved yet in {found.place}")
        return
    table = plain_table("checkpoint", "step", "saved", "size", "where", "state")
    table.columns[-1].no_wrap, table.columns[-1].justify = False, "left"
    for each in found.checkpoints:
        number = "-" if each.step is None else str(each.step)
        table.add_row(each.path, number, clock(each.saved_at), format_bytes(each.bytes), each.where, each.condition)
    out.print(table)
    say(f"in {found.place}")


def _export(
    found: CheckpointList, target: Path, *, hf: str | None, config: Path | None, step: int | None, as_torch: bool
) -> None:
    """Read the checkpoint here, where PyTorch is; nothing of it goes through the server."""
    require("torch", extra="runtime", why="--export")
    from penstock.runtime import export_torch, export_weights

    if not is_url(found.place) and not Path(found.place).is_dir():
        raise InputError(
            f"checkpoints in {found.place}, which is not on this machine", "a directory that this machine sees",
            "Fetch them with penstock files JOB --out DIR, or export where the server runs",
        )  # fmt: skip
    if as_torch:
        exported = export_torch(found.place, target, step=step)
    else:
        exported = export_weights(found.place, target, hf=hf, config=_read(config) if config else None, step=step)
    say(f"the weights of step {exported} are in {target}")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"--config {path}: {error}", "a file with a JSON object") from None
    if not isinstance(found, dict):
        raise InputError(f"--config {path} with {type(found).__name__}", "a file with a JSON object")
    return found
