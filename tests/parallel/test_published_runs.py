"""Runs that others published are predicted as the benchmark says: a change of the model that loses them is seen."""

from statistics import mean

import pytest
from bench.published import TARGET_WORST, Run, llama3, megascale, mlsys23, sc21, torchtitan

from penstock.core import PipelineSchedule
from penstock.parallel.full_cost import in_flight


@pytest.mark.parametrize("kind", [sc21, mlsys23, megascale, llama3, torchtitan])
def test_kinds_of_published_runs(kind: object) -> None:
    """The smallest and the largest run of each; the benchmark prints all."""
    runs: list[Run] = sorted(kind(), key=lambda run: run.mesh.devices)  # type: ignore[operator]
    errors = [run.predicted().iteration_s / run.seconds - 1 for run in (runs[0], runs[-1])]
    assert max(map(abs, errors)) < TARGET_WORST
    assert mean(map(abs, errors)) < 0.12


class TestInterleavedMemory:
    """Warm-up of Megatron-LM's interleaved schedule, in forward passes of chunks before the first backward pass."""

    @pytest.mark.parametrize(("stages", "chunks"), [(4, 2), (8, 3), (16, 8)])
    def test_every_stage_holds_its_warm_up(self, stages: int, chunks: int) -> None:
        for number in range(stages):
            ahead = 2 * (stages - number - 1) + (chunks - 1) * stages + 1
            held = in_flight(number, stages, 1000, PipelineSchedule.INTERLEAVED, chunks)
            assert held == pytest.approx(ahead / chunks)

    def test_no_more_than_there_is(self) -> None:
        assert in_flight(0, 16, 16, PipelineSchedule.INTERLEAVED, 8) == 16
