"""``penstock signatures``: what the doctor knows failures by."""

import json
from typing import Annotated

import typer

from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table, say
from penstock.core import InputError, Remedy

app = typer.Typer(no_args_is_help=True, help="What the doctor knows failures by: list, add and test signatures.")


@app.command("list")
def listing(
    category: Annotated[str | None, typer.Option(help="Only those of this category.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List categories, or the signatures of one."""
    from penstock.client import default_data_dir
    from penstock.diagnose import catalogue_with

    catalogue = catalogue_with(default_data_dir())
    if category is not None and category not in catalogue.categories:
        raise InputError(f"category {category!r}", ", ".join(sorted(catalogue.categories)), "Choose one of these")
    chosen = [one for one in catalogue.signatures.values() if category in (None, one.category)]
    if as_json:
        fields = ("id", "category", "level", "regex", "anchors", "near", "unless", "example", "source", "cause", "fix")
        print(json.dumps([{name: getattr(one, name) for name in fields} for one in chosen], indent=2))
        return
    table = plain_table("signature", "level", "regex") if category else plain_table("category", "signatures", "cause")
    if category is not None:
        for one in chosen:
            table.add_row(one.id, one.level, one.regex)
    else:
        for name, kind in catalogue.categories.items():
            table.add_row(name, str(sum(one.category == name for one in chosen)), kind.cause)
    out.print(table)


@app.command()
def add(
    id: Annotated[str, typer.Option("--id", help="A name that no signature has.")],
    category: Annotated[str, typer.Option(help="A category that is known, or a new FAMILY.NAME with --cause, --fix.")],
    regex: Annotated[str, typer.Option(help="A pattern of Python, searched in one line without regard to case.")],
    example: Annotated[str, typer.Option(help="A line that it has to find.")],
    level: Annotated[str, typer.Option(help="root, probable, symptom or warning.")] = "root",
    anchor: Annotated[
        list[str] | None, typer.Option(help="Literal text that a line has to have; may be repeated.")
    ] = None,
    near: Annotated[str, typer.Option(help="A pattern that the surroundings have to have.")] = "",
    unless: Annotated[str, typer.Option(help="A pattern that the surroundings must not have.")] = "",
    cause: Annotated[str, typer.Option(help="The cause, as a sentence.")] = "",
    fix: Annotated[str, typer.Option(help="What to do, as a sentence.")] = "",
    action: Annotated[str, typer.Option(help="What a controller should do, such as fix_config.")] = "",
    source: Annotated[str, typer.Option(help="The address of a public report.")] = "",
) -> None:
    """Try a signature, and keep it in signatures.toml of the data directory if nothing is wrong with it."""
    from penstock.client import default_data_dir
    from penstock.diagnose import Category, add_signature, catalogue_with

    data_dir = default_data_dir()
    new = None
    if category not in catalogue_with(data_dir).categories:
        if not (cause and fix and "." in category):
            raise InputError(
                f"category {category!r} is new", "FAMILY.NAME, with --cause and --fix",
                "Give both, or take one that `penstock signatures list` names",
            )  # fmt: skip
        remedy = Remedy(action) if action in tuple(Remedy) else Remedy.OBSERVE
        new = Category(name=category, group="infrastructure", cause=cause, fix=fix, action=remedy)
    fields = {
        "id": id, "category": category, "level": level, "regex": regex, "example": example, "anchors": anchor or (),
        "near": near, "unless": unless, "cause": cause, "fix": fix, "action": action, "source": source,
    }  # fmt: skip
    added = add_signature(data_dir, fields, new)
    say(f"{added.id} is kept in {data_dir / 'signatures.toml'}; it counts from now on, also for a server that runs")


@app.command("test")
def try_all(as_json: JsonOption = False) -> None:
    """Try every signature on its example; ends with 1 if one does not find it, or names another category."""
    from penstock.client import default_data_dir
    from penstock.diagnose import Doctor, catalogue_with, text_source, tried

    catalogue = catalogue_with(default_data_dir())
    doctor = Doctor(catalogue)
    faults = {one.id: list(tried(one).faults) for one in catalogue.signatures.values()}
    for one in catalogue.signatures.values():
        found = doctor.diagnose([text_source(one.example)]).category
        if not faults[one.id] and found != one.category:
            faults[one.id].append(f"its example is taken for {found}, not for {one.category}")
    wrong = {name: "; ".join(found) for name, found in faults.items() if found}
    if as_json:
        print(json.dumps({"tried": len(faults), "faults": wrong}, indent=2))
    else:
        for name, told in wrong.items():
            out.print(f"{name}: {told}", soft_wrap=True)
        out.print(f"{len(faults)} signatures tried, {len(wrong)} at fault")
    if wrong:
        raise typer.Exit(1)
