"""``penstock profile device`` and ``op``: measure this machine's device, so that predictions rest on it.

``penstock profile JOB`` goes on meaning a job: whatever is neither the word ``device`` nor ``op`` does.
"""

import time
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from penstock.cli.submission.profile import command as profile_job
from penstock.cli.terminal.console import interruptible, out, say
from penstock.core import InputError, require

_SECONDS_EACH = {"cuda": 0.25, "cpu": 0.1}


class _JobByDefault(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["job", *args]
        return super().parse_args(ctx, args)


def device(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long to measure.")] = 3.0,
    resume: Annotated[bool, typer.Option("--resume", help="Add to what was measured before.")] = False,
    name: Annotated[str | None, typer.Option(help="Name of the profile (default: cpu, or the GPU's model).")] = None,
    kind: Annotated[str, typer.Option(help="cuda, cpu, or auto for whatever there is.")] = "auto",
    seed: Annotated[int, typer.Option(help="First random network.")] = 1,
) -> None:
    """Run small random networks, time every kernel in them, and fit what `penstock predict` uses."""
    require("torch", extra="runtime,predict", why="penstock profile device")
    require("sklearn", extra="runtime,predict", why="penstock profile device")
    from penstock.predict import MeasuringSession, measure_random_networks, own_profiles

    on = _chosen(kind)
    called = name or (_model_of_gpu() if on == "cuda" else "cpu")
    folder = own_profiles() / called
    say(f"measuring {called} for {minutes:g} minutes; results go to {folder}")
    with interruptible():
        session = MeasuringSession(folder, on, resume=resume, isolated=on == "cpu")
        end = time.monotonic() + 60 * minutes
        count = measure_random_networks(session, end, seed=seed + len(session.networks), seconds=_SECONDS_EACH[on])
        session.save()
        say(f"{count} networks, {len(session.rows)} kernel rows; fitting")
        _fit(called, on)
    out.print(f"profile {called} is ready: penstock predict resnet50 --device {called}")


def operation(
    what: Annotated[
        list[str], typer.Argument(help="Operations (cumsum, sort), or one script or network whose operations to time.")
    ],
    name: Annotated[str | None, typer.Option(help="The profile to add to (default: cpu, or the GPU's model).")] = None,
    kind: Annotated[str, typer.Option(help="cuda, cpu, or auto for whatever there is.")] = "auto",
    batch: Annotated[int, typer.Option(min=1, help="Samples per iteration of a script or network.")] = 32,
    precision: Annotated[
        str, typer.Option(help="How the script or network trains, as for `penstock predict`.")
    ] = "bf16",
    optimizer: Annotated[str, typer.Option(help="Its optimizer, as for `penstock predict`.")] = "adamw",
) -> None:
    """Time operations that a profile does not know, by name or those of a model, and add them to it."""
    require("torch", extra="runtime", why="penstock profile op")
    from penstock.predict import Setup, load_hook, own_profiles, profile_named, time_model, time_named, with_operations

    on = _chosen(kind)
    called = name or (_model_of_gpu() if on == "cuda" else "cpu")
    profile = profile_named(called)
    if not profile.measured:
        raise InputError(
            f"{called} has no profile to add to", "a measured device", "Run `penstock profile device` first"
        )
    with interruptible():
        if len(what) == 1 and (what[0].endswith(".py") or ":" in what[0]):
            timed = time_model(load_hook(what[0]), batch, Setup(precision=precision, optimizer=optimizer), on)
        else:
            timed = time_named(what, on)
        learned = with_operations(profile, timed)
    learned.save(own_profiles() / called)
    known = len(learned.iteration.kernels.operations.times)
    out.print(f"{len(timed)} operations timed; profile {called} now knows {known} besides its families")


def _chosen(kind: str) -> str:
    import torch

    if kind not in ("auto", "cuda", "cpu"):
        raise InputError(
            f"{kind!r} is not a kind of device", "auto, cuda or cpu", "Leave --kind out to take what there is"
        )
    return kind if kind != "auto" else "cuda" if torch.cuda.is_available() else "cpu"


def _fit(called: str, on: str) -> None:
    from penstock.predict import fit_profile, local_chip, own_profiles, read_measurements, read_power

    folder = own_profiles() / called
    measured = read_measurements(folder)
    chip = local_chip(called, on, measured[0].environment)
    fit_profile(called, chip, measured, loads=read_power(folder)).save(folder)


def _model_of_gpu() -> str:
    import torch

    words = torch.cuda.get_device_name(0).lower().replace("nvidia", "").split()
    return "-".join(words) or "gpu"


app = typer.Typer(cls=_JobByDefault, help="Measure a job on a few device counts, or the device of this machine.")
app.command("job")(profile_job)
app.command("device")(device)
app.command("op")(operation)
