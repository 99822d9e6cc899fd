"""What a command line may say about a world: costs, rates, power, and recipes that are harder than the usual one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.core import ANY_KIND, Cluster, Curve, InputError, NodeJoined, NodeLost, Scaling, TraceError
from penstock.scheduler import PlacedJob
from penstock.simulate import (
    Grid,
    OverheadModel,
    PlacementRates,
    Profiles,
    Setting,
    TraceRecipe,
    export_rows,
    generate,
    parse_watts,
    run_policy,
    source_named,
    sweep,
    workload_of,
)
from penstock.simulate.traces import gang_sizes
from penstock.simulate.watts import with_watts
from tests.simulate.build import PROPORTIONAL, job

TWO_KINDS = Cluster.parse("4x8xA+4x8xB")


def test_costs_are_stated_in_words() -> None:
    model = OverheadModel.parse("change=17s,per-doubling=9s,every=1s,start=30s,checkpoint-every=5m")
    overhead = model.costs(TWO_KINDS, 60.0).overhead
    assert (overhead.change_s, overhead.per_doubling_s, overhead.every_round_s, overhead.worst_s) == (17, 9, 1, 17 + 54)
    charged = model.charged(job("a"))
    assert (charged.costs.start.likely, charged.costs.resize.likely, charged.checkpoint_every_s) == (30.0, 0.0, 300.0)
    assert OverheadModel.parse("measured").charged(job("a")) == job("a")


def test_a_file_states_costs_by_model_and_size(tmp_path: Path) -> None:
    file = tmp_path / "costs.csv"
    file.write_text("model,devices,start,resize,checkpoint_every\n,,30s,5s,\n,16,3m,,\nbert,,1m,,20m\nbert,64,10m,,\n")
    model = OverheadModel.parse(f"change=4s,start=1s,file={file}")
    found = {
        (name, devices): model.charged(job("a", model=name, requested=devices))
        for name in ("bert", "gpt") for devices in (1, 16, 64)
    }  # fmt: skip
    starts = {key: each.costs.start.likely for key, each in found.items()}
    assert starts == {
        ("bert", 1): 60, ("bert", 16): 60, ("bert", 64): 600, ("gpt", 1): 30, ("gpt", 16): 180, ("gpt", 64): 180,
    }  # fmt: skip
    assert {each.costs.resize.likely for each in found.values()} == {5.0}, "what a special row leaves open stays"
    assert found["bert", 64].checkpoint_every_s == 1200.0
    before = model.digest
    file.write_text("model,start\n,31s\n")
    assert OverheadModel.parse(f"file={file}").digest != before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("huge", "unknown overhead model 'huge'.*artifact, measured, none"),
        ("chnge=3s", "Did you mean 'change'"),
        ("change=", "each part once, as NAME=TIME"),
        ("change=1s,change=2s", "each part once"),
        ("change=soon", "not a duration"),
        ("change=8d", "a week at most"),
        ("checkpoint-every=0s", "more than nothing"),
        ("file=nowhere.csv", "no file nowhere.csv"),
    ],
)
def test_costs_that_cannot_be(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        OverheadModel.parse(text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("model,strt\n,3s\n", "Did you mean 'start'"),
        ("model,start\nbert,soon\n", "line 2, column 'start': 'soon'"),
        ("model,devices\nbert,0\n", "line 2, column 'devices': '0'"),
        ("model,start\nbert,3s\nbert,4s\n", "line 3.*every model and number of devices once"),
        ("model,checkpoint_every\nbert,0\n", "column 'checkpoint_every': '0'"),
    ],
)
def test_files_of_costs_that_cannot_be(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "c.csv").write_text(content)
    with pytest.raises(InputError, match=said):
        OverheadModel.parse(f"file={tmp_path / 'c.csv'}")
    (tmp_path / "many.csv").write_text("model,start\n" + "".join(f"m{n},1s\n" for n in range(10_001)))
    with pytest.raises(TraceError, match="more than 10,000 rows"):
        OverheadModel.parse(f"file={tmp_path / 'many.csv'}")


def placed(name: str, *devices: int) -> PlacedJob:
    return PlacedJob(job(name), "gpu", devices, len({device // 4 for device in devices}))


def test_rates_fall_with_nodes_neighbours_and_shared_networks() -> None:
    cluster = Cluster.parse("4x4")
    compact, spread = placed("a", 0, 1), placed("b", 2, 4)
    assert PlacementRates(spread=0.1).rates(cluster, [compact, spread], [0, 1]) == [2.0, pytest.approx(1.8)]
    found = PlacementRates(interference=0.5).rates(cluster, [compact, spread, placed("c", 5)], [0, 1, 2])
    assert found == pytest.approx([2.0 / 1.5, 2.0 / 1.5, 1.0 / 1.5])
    wide = [spread, placed("d", 3, 8), compact]
    assert PlacementRates(contention=1.0).rates(cluster, wide, [0, 1, 2]) == [1.0, 1.0, 2.0]
    assert PlacementRates.parse("curve").rates(cluster, [spread], [0]) == [2.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("curves", "Did you mean 'curve'"), ("spread", "each part once, as NAME=PERCENT"),
        ("spread=110%", "0% up to, not including, 100%"), ("spread=x", "0% up to"), ("spread=nan", "0% up to"),
        ("spread=1%,spread=2%", "each part once"),
    ],
)  # fmt: skip
def test_rates_that_cannot_be(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        PlacementRates.parse(text)


def test_watts_fill_in_what_curves_leave_open() -> None:
    told = Scaling(counts=(1, 2), rates=(1.0, 2.0), watts=(50.0, 90.0))
    mixed = job("a", curve=Curve((("A", told), ("B", Scaling(counts=(1, 2), rates=(1.0, 2.0))))))
    filled = with_watts(mixed, parse_watts("A=400,B=70"), ("A", "B")).curve
    assert (filled.watts(2, "A"), filled.watts(2, "B")) == (90.0, 140.0)
    assert with_watts(job("b"), parse_watts("300"), ("gpu",)).curve.watts(4, "gpu") == 1200.0
    assert with_watts(job("b"), parse_watts("T4=70"), ("gpu",)).curve == PROPORTIONAL
    for text in ("", "A=x", "A=0", "A=1,A=2", "nan"):
        with pytest.raises(InputError, match="KIND=WATTS"):
            parse_watts(text)


def recipe(text: str) -> TraceRecipe:
    return TraceRecipe.parse(text)


def test_a_hard_recipe_is_the_same_for_the_same_seed() -> None:
    first, again, other = (
        workload_of(recipe("generate:hard,jobs=60"), TWO_KINDS, Profiles.builtin(), seed=seed) for seed in (1, 1, 2)
    )
    assert (first.trace, first.events) == (again.trace, again.events)
    assert first.jobs() == again.jobs()
    assert (first.trace, first.events) != (other.trace, other.events)
    assert recipe("generate:hard,jobs=60,load=3").load == 3.0


def test_each_setting_does_what_it_says() -> None:
    def drawn(**changes: Any) -> list[Any]:
        given = {"seed": 3, "profiles": Profiles.builtin(), "mean_interval_s": 60.0, "cluster": TWO_KINDS} | changes
        return list(generate(4000, **given))

    plain, gangs, tight = drawn(), drawn(gangs=0.1), drawn(tight=0.5)
    assert gang_sizes(TWO_KINDS) == (8, 16)
    assert np.mean([each.rigid for each in gangs]) == pytest.approx(0.1, abs=0.02)
    assert {each.devices for each in gangs if each.rigid} == {8, 16}
    assert [each for each, before in zip(gangs, plain, strict=True) if not each.rigid and each != before] == []
    curves = Profiles.builtin().curves
    shorter = [each for each, before in zip(tight, plain, strict=True) if each != before]
    assert len(shorter) == pytest.approx(2000, abs=150)
    for each in shorter[:200]:
        fastest_s = each.iterations / curves[each.model, each.batch].levels(at_most=32)[-1][1]
        assert 1.0 <= (each.deadline - each.submitted_at) / fastest_s <= 1.5 + 1 / fastest_s
    bursts = drawn(burst=8.0)
    assert len({each.submitted_at for each in bursts}) == pytest.approx(500, rel=0.15)
    assert bursts[-1].submitted_at == pytest.approx(plain[-1].submitted_at, rel=0.2)
    names = [each.tenant for each in drawn(tenants=4, skew=1.0)]
    shares = [names.count(f"tenant-{number}") / len(names) for number in (1, 2, 3, 4)]
    assert shares == pytest.approx([0.48, 0.24, 0.16, 0.12], abs=0.03)


def test_gangs_count_in_the_load() -> None:
    jobs = recipe("generate:jobs=20000,load=1,gangs=5%").trace(None, 1, TWO_KINDS, Profiles.builtin()).jobs
    asked = sum(each.devices * (each.duration_s or 0) for each in jobs)
    assert asked / (jobs[-1].submitted_at * 64) == pytest.approx(1.0, rel=0.1)


def test_kinds_have_their_own_speed_for_every_model() -> None:
    source = recipe("generate:jobs=10,kinds=0.3..0.9")
    tables = source.tables(Profiles.builtin(), TWO_KINDS, 1)
    factors = {model: curve.rate(4, "B") / curve.rate(4, "A") for (model, _), curve in tables.curves.items()}
    assert len(factors) == len(set(factors.values())) == 3
    assert all(0.3 <= factor <= 0.9 for factor in factors.values())
    assert source.tables(Profiles.builtin(), Cluster.parse("2x8"), 1).kinds == {ANY_KIND}
    known = Profiles("known", {("m", 1): Curve.from_table({1: 1.0}, "A")})
    with pytest.raises(InputError, match="which says how fast kinds are"):
        source.tables(known, TWO_KINDS, 1)


def test_leased_nodes_come_and_go_and_come_back_for_good() -> None:
    source = recipe("generate:jobs=200,leases=25%")
    trace = source.trace(None, 1, TWO_KINDS, Profiles.builtin())
    events = source.events(trace, TWO_KINDS, 1)
    leased = {event.node.name for event in events if isinstance(event, NodeJoined)}
    assert len(leased) == 2, "a quarter of eight nodes"
    assert [event.at for event in events] == sorted(event.at for event in events)
    for name in leased:
        mine = [event for event in events if name in (getattr(event.node, "name", event.node),)]
        assert [type(event) for event in mine] == [NodeJoined, NodeLost] * (len(mine) // 2) + [NodeJoined]
        assert mine[-1].until == float("inf")  # type: ignore[union-attr]
    assert recipe("generate:jobs=9").events(trace, TWO_KINDS, 1) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("generate:harder", "unknown part of a recipe 'harder'.*Did you mean 'hard'"),
        ("generate:hard,gang=3", "Did you mean 'gangs'"),
        ("generate:gangs=x", "Allowed: a percentage or a number"),
        ("generate:jobs=0", "0 jobs in a recipe"),
        ("generate:leases=100%", "not including, 100%"),
        ("generate:kinds=0..1", "0 < low <= high"),
        ("generate:kinds=nan", "0 < low <= high"),
        ("generate:gangs=200%", "a share of gangs of 2"),
        ("generate:tight=nan", "a share of tight deadlines"),
        ("generate:burst=0", "bursts of 0 jobs"),
        ("generate:tenants=99999", "1 to 10000"),
        ("generate:skew=-1", "a skew of tenants"),
    ],
)
def test_recipes_that_cannot_be(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        source_named(text).trace(None, 0, TWO_KINDS, Profiles.builtin())


def test_what_is_said_of_a_world_takes_effect() -> None:
    source = recipe("generate:jobs=15,load=2,deadlines=1..2")
    workload = workload_of(source, Cluster.parse("2x4"), Profiles.builtin(), seed=1)

    def mean(**changes: Any) -> Any:
        return run_policy("fifo", workload, Setting(cluster=Cluster.parse("2x4"), **changes)).summary

    plain, dear = mean(), mean(overhead="start=1h")
    assert dear.jct_mean_s >= plain.jct_mean_s + 3599.0
    assert mean(rates=PlacementRates(interference=0.5)).jct_mean_s > plain.jct_mean_s
    assert mean(watts=(("*", 200.0),)).energy_kwh == pytest.approx(
        200.0 * plain.utilisation * 8 * plain.makespan_s / 3.6e6
    )


def test_sweeps_refuse_what_does_not_go_together(tmp_path: Path) -> None:
    from penstock.simulate import read_events

    (tmp_path / "e.csv").write_text("at,event,node\n0,lost,node-0\n")
    events = read_events(tmp_path / "e.csv")
    with pytest.raises(InputError, match="loads beside events"):
        Grid(policies=["fifo"], source=recipe("generate:jobs=5"), loads=[2.0], events=events).check()
    with pytest.raises(InputError, match="the optimum of a world with events"):
        Grid(policies=["fifo"], source=recipe("generate:jobs=5"), optimum=True, events=events).check()
    with pytest.raises(InputError, match="unknown overhead model"):
        Grid(policies=["fifo"], source=recipe("generate:jobs=5"), overhead="huge").check()
    grid = Grid(policies=["fifo"], source=recipe("generate:jobs=5"), events=events)
    assert grid.identity()["events"] == ["e.csv", events.digest]


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_rows_are_flat_whatever_was_broken(tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    rows = sweep(["deadline"], "generate:jobs=8", clusters=["1x4"], seeds=[1], workers=1)
    assert rows[0]["broken_causes"] == ""
    export_rows(rows, tmp_path / f"rows.{ending}")
    assert not any(isinstance(value, dict | list) for value in rows[0].values())
