"""A study of a server's own past: from the database to the table that people read."""

from dataclasses import replace

import pytest

from penstock.control.future.whatif import WhatIfStudies, study_database
from penstock.control.reports.whatif import whatif_page, whatif_rows, whatif_sentences
from penstock.core import Cluster, InputError
from penstock.simulate import Scenario, what_if
from penstock.simulate.whatif.scenario import resized
from penstock.wire import TooManyError, WhatIfRequest
from tests.whatif.build import LivedThrough, drawn_jobs, simulated_past


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> LivedThrough:
    return LivedThrough(tmp_path_factory.mktemp("lived"))


def test_the_table_has_reality_the_replay_and_every_scenario_with_its_difference(lived: LivedThrough) -> None:
    report = lived.study(policies=["fifo", "srtf:order=device-time"], shares={"default": 2.0})
    assert report.conclusive
    rows = whatif_rows(report)
    assert [row[0] for row in rows] == [
        "deadline, as it was", "deadline, replayed", "fifo, default=2", "srtf:order=device-time, default=2",
    ]  # fmt: skip
    assert "%" in rows[2][4], "completion times are told with their difference to the replay"
    words = list(whatif_sentences(report))
    assert words[0].startswith("Replayed as it ran")
    assert "<table>" in whatif_page(report)


def test_fewer_devices_than_none_are_refused_whether_or_not_the_past_is_reproduced() -> None:
    past = simulated_past(drawn_jobs(3), "fifo")
    late = [replace(each, real=replace(each.real, ended_at=1e7)) for each in past.jobs]
    assert not what_if(replace(past, jobs=late), []).calibration.conclusive
    with pytest.raises(InputError, match="-100 of 8 devices"):
        what_if(replace(past, jobs=late), [Scenario(devices="-100")])


def test_a_time_without_jobs_and_one_that_is_empty_are_refused(lived: LivedThrough) -> None:
    with pytest.raises(InputError, match="is empty"):
        lived.study(policies=["fifo"], since="2030-01-01")
    with pytest.raises(InputError, match="no jobs in this time"):
        lived.study(policies=["fifo"], until="2d")
    with pytest.raises(InputError, match="no jobs in this time"):
        study_database(lived.url, WhatIfRequest(since="1s", policies=["fifo"]), lived.now + 10_000)


def test_a_study_in_a_process_of_its_own_says_the_same_and_ends_in_time(lived: LivedThrough) -> None:
    wanted = WhatIfRequest(policies=["fifo"])
    assert WhatIfStudies(lived.url).study(wanted, lived.now) == lived.study(policies=["fifo"])
    with pytest.raises(InputError, match="longer than"):
        WhatIfStudies(lived.url, limit_s=0.01).study(wanted, lived.now)


def test_one_study_at_a_time_and_no_code_of_somebodys_own(lived: LivedThrough) -> None:
    studies = WhatIfStudies(lived.url)
    with pytest.raises(InputError, match="code of somebody's own"):
        studies.study(WhatIfRequest(policies=["mine.py:Mine"]), lived.now)
    with studies._busy, pytest.raises(TooManyError, match="another study"):
        studies.study(WhatIfRequest(policies=["fifo"]), lived.now)


@pytest.mark.parametrize(
    ("devices", "counts"),
    [("+12", [8, 8, 8, 4]), ("-1", [8, 7]), ("-8", [8]), ("16", [8, 8]), ("12", [8, 4]), ("1", [1]), ("17", [8, 8, 1])],
)
def test_a_cluster_grows_by_nodes_like_its_own_and_shrinks_from_the_last(devices: str, counts: list[int]) -> None:
    assert [node.device_count for node in resized(Cluster.parse("2x8"), devices).nodes] == counts
