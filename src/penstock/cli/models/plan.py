"""``penstock plan``: how to split a model over a cluster, what that takes, and the same for your trainer."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.models.device_counts import device_counts
from penstock.cli.terminal.console import interruptible, out, plain_table, say
from penstock.core import InputError, PipelineSchedule, UnknownNameError, is_plugin

if TYPE_CHECKING:
    from penstock.parallel import Checked, Planned, TrainingRun


def command(
    model: Annotated[
        str,
        typer.Argument(
            help='A name like "gpt-13b", a config.json, a script with penstock_model(batch), or module:function.'
        ),
    ],
    cluster: Annotated[str, typer.Option(help='"4x8xA100-80GB", "8xV100-32GB", or a YAML or JSON file.')],
    batch: Annotated[
        int | None, typer.Option(help="Global batch in samples; about four million tokens by default.")
    ] = None,
    seq: Annotated[int | None, typer.Option(help="Tokens per sample.")] = None,
    memory: Annotated[str | None, typer.Option(help='What a plan may use per device, "28GB".')] = None,
    seconds: Annotated[float, typer.Option(help="Time to search.")] = 10.0,
    devices: Annotated[str | None, typer.Option(help='Device counts for a throughput curve, "1,2,4,8".')] = None,
    schedule: Annotated[str, typer.Option(help="Further schedules: interleaved, zero-bubble.")] = "",
    precision: Annotated[str, typer.Option(help="Of linear layers: half (bf16, or fp16 before it), fp8.")] = "half",
    kernels: Annotated[
        str, typer.Option(help="fused (Megatron-LM, compiled), eager (PyTorch without its compiler).")
    ] = "fused",
    tp_overlap: Annotated[
        bool, typer.Option("--tp-overlap", help="Tensor-parallel collectives run behind products (user buffers).")
    ] = False,
    tokens: Annotated[str | None, typer.Option(help='Tokens to train on, "2T": says days and device-hours.')] = None,
    price: Annotated[float | None, typer.Option(help="Of a device-hour: says what --tokens cost.")] = None,
    evaluate: Annotated[
        str | None, typer.Option(help="Price a plan of your own, a YAML or JSON file, instead of searching.")
    ] = None,
    export: Annotated[str | None, typer.Option(help="Print for a trainer: megatron, torchtitan, deepspeed.")] = None,
    uniform: Annotated[bool, typer.Option("--uniform", help="Export the best uniform plan.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Run a toy of it here: does it compute the same?")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Compare with the runners-up.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find how to split a model over devices: stages, tensor, data and sequence parallelism, recomputation."""
    from penstock.parallel import (
        TrainerKernels,
        evaluate_plan,
        parse_tokens,
        plan_for,
        throughput_curve,
        training_run,
    )

    _check_trainer(export)
    _refuse_contradictions(devices is not None, export is not None, uniform, check)
    _refuse_with_evaluate(evaluate, devices=devices, schedule=schedule, uniform=uniform)
    _refuse_price_alone(price, tokens)
    wanted = None if tokens is None else parse_tokens(tokens)
    how = TrainerKernels(kernels=kernels, precision=precision, tp_overlap=tp_overlap)
    with interruptible():
        if devices is not None:
            curve = throughput_curve(
                model,
                cluster,
                device_counts(devices),
                batch=_given(batch, "--devices"),
                seq=seq,
                memory=memory,
                seconds=seconds,
                how=how,
            )
            _print_curve(curve, as_json)
            return
        if evaluate is not None:
            planned = evaluate_plan(
                model, cluster, evaluate, batch=_given(batch, "--evaluate"), seq=seq, memory=memory, how=how
            )
        else:
            planned = plan_for(
                model, cluster, batch=batch, seq=seq, memory=memory, seconds=seconds, schedules=_schedules(schedule),
                how=how,
            )  # fmt: skip
    run = None if wanted is None else training_run(planned, wanted, price)
    checked = _checked(planned) if check else None
    if export is not None:
        _print_export(planned, export, uniform)
    elif as_json:
        more = {"check": asdict(checked) if checked else None, "run": _run_mapping(run)}
        print(json.dumps({**as_mapping(planned), **more}, indent=2))
    else:
        _print_plan(planned, explain, run)
    if checked is not None:
        say(f"check: {checked.words}")
        raise typer.Exit(1 if checked.equal is False else 0)


def _check_trainer(name: str | None) -> None:
    from penstock.parallel import TRAINERS

    if name is not None and not is_plugin(name) and name not in TRAINERS:
        raise UnknownNameError.of("trainer", name, TRAINERS)


def _print_export(planned: "Planned", trainer: str, uniform: bool) -> None:
    """The configuration to stdout; how it differs from the plan and how it is launched to stderr."""
    from penstock.parallel import export

    written = export(planned, trainer, uniform=uniform)
    for note in written.notes:
        say(note)
    say(written.launch)
    print(written.text, end="")


def _refuse_contradictions(curve: bool, export: bool, uniform: bool, check: bool) -> None:
    if curve and (export or check):
        option = "--export" if export else "--check"
        raise InputError(
            f"--devices together with {option}", "one of them", f"{option} is about one plan: give --cluster"
        )
    if uniform and not export:
        raise InputError("--uniform without --export", "both", "--explain shows the best uniform plan")


def _refuse_with_evaluate(evaluate: str | None, **others: object) -> None:
    given = [f"--{name}" for name, value in others.items() if value]
    if evaluate is not None and given:
        raise InputError(f"--evaluate together with {given[0]}", "one of them", "The file says how the model is split")


def _refuse_price_alone(price: float | None, tokens: str | None) -> None:
    if price is not None and tokens is None:
        raise InputError("--price without --tokens", "both", "--tokens 2T says for how much training")


def _given(batch: int | None, option: str) -> int:
    if batch is None:
        raise InputError(f"{option} without --batch", "both", "--batch is the global batch in samples")
    return batch


def _run_mapping(run: "TrainingRun | None") -> dict[str, Any] | None:
    if run is None:
        return None
    return {name: None if value != value else value for name, value in asdict(run).items()}


def _checked(planned: "Planned") -> "Checked":
    from penstock.parallel import check_plan

    with interruptible():
        return check_plan(planned.plan)


def as_mapping(planned: "Planned") -> dict[str, Any]:
    """The answer for programs."""
    prediction = planned.prediction
    return {
        "model": planned.family.name,
        "parameters": planned.family.parameters,
        "cluster": planned.mesh.name,
        "devices": planned.mesh.devices,
        "plan": planned.plan.to_mapping(),
        "origin": planned.best.origin,
        "iteration_s": prediction.iteration_s,
        "samples_per_s": prediction.samples_per_s,
        "utilisation": prediction.utilisation,
        "bubble": prediction.bubble,
        "exposed_gradients_s": prediction.exposed_sync_s,
        "optimizer_s": prediction.optimizer_s,
        "bottleneck_stage": prediction.bottleneck,
        "memory_bytes": [stage.memory.total for stage in prediction.stages],
        "memory_limit_bytes": planned.mesh.memory_bytes,
        "fits": planned.fits,
        "precision": "fp8" if planned.fp8 else "half",
        "uniform_iteration_s": planned.uniform.iteration_s if planned.uniform else None,
        "bound_s": planned.bound_s,
        "gap": planned.gap,
        "tried": planned.tried,
        "export_only": planned.export_only,
    }


def _print_plan(planned: "Planned", explain: bool, run: "TrainingRun | None") -> None:
    from penstock.parallel import plan_comparison, plan_findings, plan_picture, run_words

    out.print(plan_picture(planned), soft_wrap=True)
    out.print()
    for line in plan_findings(planned):
        out.print(line, soft_wrap=True)
    if run is not None:
        out.print(run_words(run), soft_wrap=True)
    if explain:
        out.print()
        for line in plan_comparison(planned):
            out.print(line, soft_wrap=True)
    say(f"costs: {planned.costs_from}; assumed links: {planned.mesh.fabric.source}")


def _print_curve(answers: "dict[int, Planned | InputError]", as_json: bool) -> None:
    from penstock.parallel import Planned

    if as_json:
        rows = {
            str(count): as_mapping(answer) if isinstance(answer, Planned) else {"refused": str(answer)}
            for count, answer in answers.items()
        }
        print(json.dumps(rows, indent=2))
        return
    from penstock.parallel import plan_words

    table = plain_table("devices", "s/iteration", "samples/s", "MFU", "plan")
    for count, answer in answers.items():
        if isinstance(answer, Planned):
            p = answer.prediction
            table.add_row(
                str(count), f"{p.iteration_s:.3f}", f"{p.samples_per_s:.4g}", f"{100 * p.utilisation:.1f}%",
                plan_words(answer.plan),
            )  # fmt: skip
        else:
            table.add_row(str(count), "-", "-", "-", "does not fit")
            say(f"{count} devices: {answer}")
    out.print(table)


def _schedules(text: str) -> tuple[PipelineSchedule, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [schedule.value for schedule in PipelineSchedule]
    for name in names:
        if name not in known:
            raise UnknownNameError.of("schedule", name, known)
    return tuple(PipelineSchedule(name) for name in names if name != PipelineSchedule.ONE_F_ONE_B)
