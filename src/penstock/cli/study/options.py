"""Options several verbs understand."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.terminal.console import say
from penstock.core import InputError, parse_duration
from penstock.simulate import StopKnowledge

if TYPE_CHECKING:
    from penstock.simulate import NodeFailures, Profiles, TraceEvents, WorkloadSource


WRONG_BY_HELP = "Jobs really run at up to this much more or less than the speed the scheduler believes."

PolicyOption = Annotated[
    str,
    typer.Option(
        help="Names, separated by commas: deadline, srtf:order=device-time, mine.py:Mine (`penstock policies`)."
    ),
]
ProfilesOption = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", help="Throughput tables: a folder with one MODEL.csv each, Sia's profiles, or Gavel's JSON."
    ),
]
AdaptiveOption = Annotated[
    bool,
    typer.Option(
        "--adaptive-batches",
        help="With Sia's profiles: every job uses the global batch with the most goodput on the devices it has.",
    ),
]
SlotOption = Annotated[str, typer.Option(help="Shortest time between two decisions.")]
OverheadOption = Annotated[
    str,
    typer.Option(
        help="What decisions and restarts cost: none, artifact, measured, or change=17s,per-doubling=9s,start=30s "
        "(also every, resize, end, checkpoint-every, file=costs.csv)."
    ),
]
RatesOption = Annotated[
    str,
    typer.Option(
        help="How fast jobs run where they are placed: curve, or any of spread=10%,interference=5%,contention=20%."
    ),
]
WattsOption = Annotated[
    str | None, typer.Option(help='What a device at work draws, for energy: "400", or "A100=400,T4=70".')
]
EventsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Events besides the trace: leases, joins, drains, pauses, edits (CSV or JSON lines).",
    ),
]
TenantsOption = Annotated[
    str | None, typer.Option(help="Shares, quotas and groups: vision=2:quota=8:group=research,nlp=1.")
]
PlacementOption = Annotated[str | None, typer.Option(help="Instead of what each policy prefers.")]
DeadlinesOption = Annotated[str | None, typer.Option(help='Draw missing deadlines, "0.5..1.5" x duration.')]
ElasticOption = Annotated[
    bool,
    typer.Option(
        "--elastic", help="Let jobs of a trace with fixed sizes (Gavel, Chronus, SWF…) run on any number of devices."
    ),
]
CapsOption = Annotated[bool, typer.Option("--caps", help="Bound widths as the public ElasticFlow code does.")]
DoubtsOption = Annotated[str, typer.Option(help="Tell the scheduler that speeds may turn out this much lower.")]
ReportsOption = Annotated[str, typer.Option(help="With --wrong-by: how often jobs report what is really left.")]
FailuresOption = Annotated[
    str | None, typer.Option(help="Nodes fail now and then: mtbf=5d, or mtbf=5d,repair=2h (1h if not given).")
]
UntilOption = Annotated[
    str, typer.Option(help="This share of the jobs ends when a generated metric reaches its target, as nobody knows.")
]
KnowledgeOption = Annotated[
    StopKnowledge,
    typer.Option(help="With --until: what the scheduler goes by: forecast (the metric so far), most, or oracle."),
]
OptimumOption = Annotated[
    bool,
    typer.Option(
        "--optimum", help="Add the most deadlines that could be met knowing the future (small cases; needs scipy)."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def load_profiles(path: Path | None, source: "WorkloadSource | None" = None, *, adaptive: bool = False) -> "Profiles":
    """The tables at ``path``, or the built-in ones, saying so if jobs of the ``source`` will follow them."""
    from penstock.simulate import Profiles

    if path is not None:
        return Profiles.load(path, adaptive=adaptive)
    if adaptive:
        raise InputError("--adaptive-batches without profiles", "the profiles of Sia", "Add --profiles sia/profiles")
    if source is None or source.needs_tables:
        say("no --profiles given: using the built-in demo curves, which nobody measured")
    return Profiles.builtin()


def parse_bounds(text: str) -> tuple[float, float]:
    """ "0.5..1.5", or "1.2" for exactly that."""
    low, _, high = text.partition("..")
    try:
        return float(low), float(high or low)
    except ValueError:
        raise InputError(
            f"{text!r} does not say how tight deadlines are", "LOW..HIGH in multiples of the duration", 'Try "0.5..1.5"'
        ) from None


def parse_slot(text: str) -> float:
    slot = parse_duration(text)
    if slot < 1:
        raise InputError(f"A slot of {text} is too short", "at least one second", "Try --slot 60s")
    return slot


def parse_share(text: str) -> float:
    """ "20%" or "0.2"."""
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        raise InputError(f"{text!r} is not a share", "a percentage or a number from 0 to below 1", "Try 20%") from None
    if not 0 <= share < 1:
        raise InputError(f"a share of {text}", "0% up to, not including, 100%", "Try 20%")
    return share


def parse_part(text: str) -> float:
    """ "50%" or "0.5", up to everything."""
    return 1.0 if text.strip() in ("100%", "1", "1.0") else parse_share(text)


def load_events(path: Path | None) -> "TraceEvents | None":
    from penstock.simulate import read_events

    return read_events(path) if path is not None else None


def parse_failures(text: str | None) -> "NodeFailures | None":
    from penstock.simulate import NodeFailures

    return NodeFailures.parse(text) if text is not None else None
