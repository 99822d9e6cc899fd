"""Throughput tables and the curves we made up."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core import Source, TraceError, UnknownNameError
from penstock.simulate.traces import Profiles

WriteFile = Callable[[str, str], Path]

TABLE = "global_batch_size,1,2,4,8\n64,6.0,8.5,nan,\n128,0,5.5,8.0,9.5"


def test_cells_that_cannot_run_are_left_out(write: WriteFile) -> None:
    profiles = Profiles.load(write("bert.csv", TABLE).parent)
    small, large = (profiles.curve("bert", batch).scalings[0][1] for batch in (64, 128))
    assert (small.counts, small.rates) == ((1, 2), (6.0, 8.5))
    assert (large.counts, large.source) == ((2, 4, 8), Source.MEASURED)
    assert profiles.batches("bert") == (64, 128)


def test_unknown_models_and_batches(write: WriteFile) -> None:
    profiles = Profiles.load(write("bert.csv", TABLE).parent)
    with pytest.raises(UnknownNameError, match=r"unknown model 'brt'.*Did you mean 'bert'\?"):
        profiles.curve("brt", 64)
    with pytest.raises(UnknownNameError, match=r"'bert' at batch size 32.*64, 128"):
        profiles.curve("bert", 32)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("batch,1,2\n64,1,2\n", "bert.csv has the columns batch, 1, 2.*'global_batch_size'"),
        ("global_batch_size,1,two\n64,1,2\n", "column 'two'"),
        ("global_batch_size,0\n64,1\n", "column '0'"),
        ("global_batch_size,1,2\n64,1,fast\n", "line 2, column '2': 'fast'"),
        ("global_batch_size,1,2\n64,1,-2\n", "line 2, column '2': '-2'"),
        ("global_batch_size,1,2\n64,1,inf\n", "line 2, column '2': 'inf'"),
        ("global_batch_size,1,2\n64,1,2\n64,1,2\n", "line 3, column 'global_batch_size'.*once"),
        ("global_batch_size,1,2\n64,,nan\n", "line 2: .*without a single runnable count"),
        ("global_batch_size,1,2\n", "holds no throughput"),
    ],
)
def test_tables_that_say_nothing(write: WriteFile, text: str, complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint):
        Profiles.load(write("bert.csv", text).parent)


def test_a_directory_without_tables(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no throughput tables in"):
        Profiles.load(tmp_path / "nowhere")


def test_fitting_prefers_counts_inside_the_table(profiles: Profiles) -> None:
    assert profiles.fitting(1) == (("small", 32), ("small", 64))
    assert len(profiles.fitting(8)) == 3
    assert profiles.fitting(16) == (("wide", 128),)
    assert len(profiles.fitting(512)) == 3
    assert profiles.fitting(2, "wide") == ()


def test_built_in_curves_are_sublinear_predictions() -> None:
    profiles = Profiles.builtin()
    for curve in profiles.curves.values():
        ((_, scaling),) = curve.scalings
        per_device = [rate / count for count, rate in zip(scaling.counts, scaling.rates, strict=True)]
        assert per_device == sorted(per_device, reverse=True)
        assert scaling.source is Source.PREDICTED
        assert scaling.counts[-1] == 64
    assert all(len(profiles.batches(name)) == 2 for name in profiles.names)
