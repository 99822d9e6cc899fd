"""The figures and the words of a comparison: exact on cases one can compute in one's head."""

import base64
import math
import re
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import BestEffort, Cluster, Curve, Deadline, InputError, Job, Work
from penstock.policies import policy_named
from penstock.simulate import Bar, Result, Setting, Timeline, Workload, compare, simulate
from penstock.simulate.report import Study, page_of, render, write_report
from penstock.simulate.report.findings import findings
from penstock.simulate.report.gantt import MOST_BARS, gantt_of
from penstock.simulate.report.job_groups import classes_of, fortune
from penstock.simulate.report.packing import pack_bytes, pack_floats, pack_ints, pack_text
from penstock.simulate.report.series import Clockwork, devices_held, distribution, waiting
from penstock.simulate.traces import Profiles, Trace, generate, write_trace
from tests.tools import commandline

PROPORTIONAL = Curve.from_table({1: 1.0, 2: 2.0, 4: 4.0})
SETTING = Setting(cluster=Cluster.parse("1x4"), slot=1.0, timeline=True)


def job(
    name: str, work: float = 100.0, at: float = 0.0, due: float | None = None, devices: int = 4, **more: object
) -> Job:
    goal = BestEffort() if due is None else Deadline(due)
    return Job(id=name, work=Work(work), curve=PROPORTIONAL, submitted_at=at, goal=goal, requested=devices, **more)  # type: ignore[arg-type]


def study(jobs: list[Job], *policies: str, timeline: bool = True) -> Study:
    results = [
        simulate(jobs, SETTING.cluster, policy_named(name), slot=SETTING.slot, timeline=timeline) for name in policies
    ]
    return Study.of("tiny", jobs, SETTING, results)


def titles(one: Study) -> dict[str, str]:
    return {found.title: found.text for found in findings(one.crowd, one.runs, one.devices, one.clock)}


def crowded() -> list[Job]:
    """Twenty jobs that come at once to a cluster that does one in 25 seconds; the later half cannot be in time."""
    return [job(f"j{number}", due=260.0) for number in range(20)]


# --- figures ------------------------------------------------------------------------------------------------------


def test_waiting_and_use_are_exact_means_of_their_bins() -> None:
    one = study([job("a"), job("b")], "fifo")
    (run,) = one.runs
    assert one.clock.end - one.clock.start == pytest.approx(50.0)
    assert waiting(one.crowd, run, one.clock).sum() * one.clock.bin_s == pytest.approx(25.0)
    held = devices_held(run.timeline, one.clock)  # type: ignore[arg-type]
    assert held.max() <= 4.0 + 1e-9
    assert held.sum() * one.clock.bin_s == pytest.approx(200.0)


def test_a_distribution_counts_those_who_never_came_so_far() -> None:
    found = distribution(np.array([3.0, 1.0, np.nan, 2.0]), 4)
    assert found.values.tolist() == [1.0, 2.0, 3.0]
    assert found.shares.tolist() == [0.25, 0.5, 0.75]
    assert distribution(np.array([np.nan]), 1).values.tolist() == []


@given(st.lists(st.integers(min_value=-(10**9), max_value=10**9), max_size=60))
def test_integers_survive_packing(values: list[int]) -> None:
    """Unpacked here as the script in the page does it."""
    packed = pack_ints(np.array(values, dtype=np.int64))
    data, out, total, at = zlib.decompress(base64.b64decode(packed["b"])), [], 0, 0
    for _ in range(packed["of"]):
        value, scale = 0, 1
        while True:
            byte = data[at]
            at += 1
            value += (byte & 0x7F) * scale
            scale *= 128
            if not byte & 0x80:
                break
        total += -(value + 1) // 2 if value % 2 else value // 2
        out.append(total)
    assert out == values
    assert at == len(data)


def test_other_columns_survive_packing() -> None:
    floats = pack_floats(np.array([1.5, math.nan, -2.0]))
    assert np.frombuffer(zlib.decompress(base64.b64decode(floats["b"])), "<f4")[[0, 2]].tolist() == [1.5, -2.0]
    assert zlib.decompress(base64.b64decode(pack_bytes(np.array([0, 4]))["b"])) == b"\x00\x04"
    assert zlib.decompress(base64.b64decode(pack_text(["a\nb", "ü"])["b"])).decode() == "a b\nü"


def test_few_bars_are_all_there_and_many_are_merged_and_say_so() -> None:
    clock = Clockwork(0.0, 1000.0)
    few = gantt_of(Timeline([Bar("a", 0, 2, 0.0, 500.0), Bar("b", 2, 1, 250.0, 1000.0)]), ["a", "b"], 4, clock)
    assert few.merged_s == 0
    assert (few.length * few.tick_s).tolist() == pytest.approx([500.0, 750.0], rel=1e-3)
    step = 1000.0 / MOST_BARS
    busy = [Bar("a", 0, 1, i * step, (i + 1) * step) for i in range(MOST_BARS + 1)]
    many = gantt_of(Timeline([*busy, Bar("b", 1, 3, 100.0, 900.0)]), ["a", "b"], 4, clock)
    assert many.merged_s > 0
    assert len(many.start) <= MOST_BARS
    shown = many.job == 1
    assert (many.length * many.count)[shown].sum() * many.merged_s == pytest.approx(2400.0, rel=0.01)


# --- words --------------------------------------------------------------------------------------------------------


def test_the_headline_names_the_winner_and_its_figures() -> None:
    told = titles(study(crowded(), "deadline", "fifo"))
    best = next(title for title in told if title.startswith("deadline meets"))
    assert re.fullmatch(r"deadline meets \d+\.\d% of the deadlines, fifo \d+\.\d%", best)


def test_admission_says_who_was_hopeless() -> None:
    jobs = [*crowded(), job("hopeless", work=10_000.0, due=300.0)]
    told = titles(study(jobs, "edf-admission", "fifo"))
    refused = next(text for title, text in told.items() if title.startswith("edf-admission refused"))
    assert refused.startswith("1 of them could not have met their deadline even alone")


def test_a_queue_for_want_of_devices_is_told_from_one_the_policy_makes() -> None:
    full = titles(study(crowded(), "fifo"))["Where the queue of fifo comes from"]
    assert "there is more work than that" in full
    wide = [job("wide", work=10_000.0, devices=2), *(job(f"w{i}", work=4000.0, devices=4) for i in range(3))]
    idle = titles(study(wide, "fifo"))["Where the queue of fifo comes from"]
    assert re.search(r"\d+% of all waiting happens while more than a tenth of the devices is free", idle)


def test_nobody_queues_when_there_is_room() -> None:
    told = titles(study([job("a"), job("b", at=500.0)], "fifo"))
    assert "Nobody queues under fifo" in told


def test_classes_divide_all_jobs_and_count_their_deadlines() -> None:
    jobs = [job(f"j{i}", work=10.0 * (i + 1), due=1e4 if i % 2 else None, devices=1 + i % 4) for i in range(30)]
    one = study(jobs, "fifo")
    for way in ("size", "width", "hurry"):
        groups = [group for group in classes_of(one.crowd) if group.sorted_by == way]
        assert sum(len(group) for group in groups) == 30
        assert sum(fortune(one.crowd, one.runs[0], group).due for group in groups) == 15


def test_without_deadlines_it_speaks_of_time_alone() -> None:
    told = titles(study([job(f"j{i}", work=10.0 + i, devices=2) for i in range(12)], "srtf", "fifo"))
    assert any(title.endswith("finishes jobs soonest") for title in told)
    assert not any("deadlines," in title for title in told)


def test_no_jobs_at_all() -> None:
    assert list(titles(study([], "fifo"))) == ["Nothing happened"]
    assert "Nothing happened" in page_of(study([], "fifo"))


# --- the page -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workload() -> Workload:
    trace = Trace.assemble(
        "t", "plain", generate(60, seed=3, profiles=Profiles.builtin(), mean_interval_s=200, best_effort=0.2)
    )
    return Workload(trace=trace, profiles=Profiles.builtin())


@pytest.fixture(scope="module")
def results(workload: Workload) -> list[Result]:
    return compare(["deadline", "fifo"], workload, Setting(cluster=Cluster.parse("2x8"), timeline=True), processes=1)


def test_the_page_names_every_policy_and_loads_nothing(workload: Workload, results: list[Result]) -> None:
    page = render(workload, Setting(cluster=Cluster.parse("2x8"), timeline=True), results)
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)\s*=\s*['\"]?(https?:)?//", page)
    assert len(re.findall(r"<summary>The same as a table</summary>", page)) == 7
    for result in results:
        assert f"{100 * result.summary.ratio:.1f}%" in page


def test_what_a_trace_calls_itself_is_only_text() -> None:
    nasty = "</script><script>alert(1)</script>"
    one = study([job(nasty, due=500.0, model=nasty, tenant="<b>")], "fifo")
    page = page_of(Study.of(nasty, [job(nasty, due=500.0, model=nasty)], SETTING, [
        simulate([job(nasty, due=500.0, model=nasty)], SETTING.cluster, policy_named("fifo"), timeline=True)
    ]))  # fmt: skip
    assert nasty not in page
    assert nasty not in page_of(one)


def test_a_replica_without_a_timeline_is_shown_as_far_as_it_is_known(workload: Workload) -> None:
    setting = Setting(cluster=Cluster.parse("2x8"), timeline=True)
    mixed = compare(["edf-artifact", "fifo"], workload, setting, processes=1)
    assert mixed[0].timeline is None
    page = render(workload, setting, mixed)
    assert "not kept" in page


def test_a_report_about_nothing_is_refused(workload: Workload) -> None:
    with pytest.raises(InputError, match="at least one result"):
        render(workload, SETTING, [])


def test_a_page_is_written_whole_or_not_at_all(workload: Workload, results: list[Result], tmp_path: Path) -> None:
    target = tmp_path / "deep" / "page.html"
    size = write_report(target, workload, Setting(cluster=Cluster.parse("2x8"), timeline=True), results)
    assert target.stat().st_size == size
    assert [path.name for path in target.parent.iterdir()] == ["page.html"]


def simulated(*arguments: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return commandline.penstock("simulate", *arguments, cwd=cwd)


def test_the_command_writes_the_page_and_refuses_what_cannot_be_one(tmp_path: Path) -> None:
    jobs = generate(30, seed=5, profiles=Profiles.builtin(), mean_interval_s=300)
    write_trace(tmp_path / "small.csv", jobs)
    arguments = ("small.csv", "--cluster", "2x8", "--policy", "fifo,edf", "--report")
    done = simulated(*arguments, "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "open it in a browser" in done.stderr
    assert "small: 2 policies compared" in (tmp_path / "page.html").read_text()
    again = simulated(*arguments, "page.html", cwd=tmp_path)
    assert again.returncode == 2
    assert "--force" in again.stderr
    wrong = simulated(*arguments, "page.pdf", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "ends in .html" in wrong.stderr
