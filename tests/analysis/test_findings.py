"""What is found, what is only found where it is known, and what is advised."""

import json
from types import SimpleNamespace

import pytest

from penstock.core import InputError
from penstock.simulate import Analysis, Ending, Observed, Section, analysis_page, analyze
from penstock.simulate.analysis.failures import EARLY_S, _early
from tests.analysis.build import four_devices, job


def section(found: Analysis, name: str) -> Section:
    return next(each for each in found.sections if each.name == name)


def row(found: Section, name: str) -> dict[str, str]:
    cells = next(cells for cells in found.rows if cells[0] == name)
    return dict(zip(found.columns, cells, strict=True))


def busy_day() -> Observed:
    """A large job that fails late, many that fail at once, and some that finish."""
    early = [job(f"e{i}", 1, i, i + 1.0, 60, ending=Ending.FAILED, cause="exit") for i in range(20)]
    late = [job("late", 4, 0, 0, 200_000, ending=Ending.FAILED, cause="node", tenant="lm")]
    done = [job(f"d{i}", 1, i, i + 2.0, 1200, tenant=f"t{i % 3}") for i in range(30)]
    return Observed(name="day", jobs=[*early, *late, *done], devices=8)


def test_failures_are_counted_in_jobs_and_in_device_time_and_by_cause() -> None:
    found = section(analyze(busy_day()), "failures")
    assert row(found, "failed")["of jobs"] == f"{100 * 21 / 51:.1f} %"
    assert row(found, "failed: node")["device-hours"] == f"{800_000 / 3600:,.0f}"
    assert row(found, "failed: exit")["median run"] == "1m"
    assert {each.title.split(" ")[0] for each in found.advice} >= {"95.2"}, "failures within ten minutes"
    assert any("tenth of the failures" in each.title for each in found.advice)


def test_every_advice_says_what_to_do() -> None:
    told = analyze(busy_day()).advice
    assert told
    assert all(each.action and each.text and each.title for each in told)


def test_what_a_trace_does_not_say_is_not_concluded() -> None:
    jobs = [job(f"j{i}", 1, i, None, 100, ending=Ending.UNKNOWN) for i in range(50)]
    found = analyze(Observed(name="silent", jobs=jobs))
    assert "when jobs started" in section(found, "use").unknown
    assert "how jobs ended" in section(found, "failures").unknown
    assert row(section(found, "tenants"), "vision")["in vain"] == "not known"


def test_a_queue_beside_free_devices_is_only_found_where_their_number_is_known() -> None:
    jobs = [job("a", 2, 0, 0, 100), *(job(f"b{i}", 2, 0, 100.0 + i, 1) for i in range(5))]
    known = analyze(four_devices(*jobs))
    guessed = analyze(Observed(name="guessed", jobs=jobs))
    title = "of all waiting happened while enough devices were free"
    assert any(title in each.title for each in known.advice)
    assert not any(title in each.title for each in guessed.advice)


def test_small_jobs_that_wait_longest_are_noticed() -> None:
    small = [job(f"s{i}", 1, 0, 500.0, 10) for i in range(20)]
    large = [job(f"l{i}", 16, 0, 5.0, 10) for i in range(20)]
    found = analyze(Observed(name="reserved", jobs=[*small, *large], devices=400))
    assert any("Small jobs wait longer" in each.title for each in found.advice)


def test_the_page_loads_nothing_and_the_rest_is_json() -> None:
    found = analyze(busy_day())
    page = analysis_page(found)
    assert page.startswith("<!doctype html>")
    assert "<svg" in page
    assert "http" not in page.split("<main", 1)[1]
    assert json.loads(json.dumps(found.as_dict()))["jobs"] == 51


def test_names_of_tenants_are_no_markup() -> None:
    page = analysis_page(analyze(four_devices(job("a", 1, 0, 0, 10, tenant="<script>alert(1)</script>"))))
    assert "<script>alert" not in page


def test_no_jobs_are_refused() -> None:
    with pytest.raises(InputError, match="no jobs"):
        analyze(Observed(name="empty", jobs=[]))


@pytest.mark.parametrize(
    ("early", "jobs", "said"), [(9, 100, False), (10, 100, True), (10, 500, True), (10, 501, False), (20, 1000, True)]
)
def test_early_failures_are_worth_a_word_from_ten_and_a_fiftieth_of_all_jobs_on(
    early: int, jobs: int, said: bool
) -> None:
    lasting = [SimpleNamespace(run_s=EARLY_S, device_s=1.0)] * (jobs - early)
    failed = [SimpleNamespace(run_s=EARLY_S - 1.0, device_s=1.0)] * early + lasting[:5]
    advice = list(_early(SimpleNamespace(jobs=failed[:early] + lasting), failed))  # type: ignore[arg-type]
    assert [f"{early:,} jobs" in each.text for each in advice] == [True] * said
