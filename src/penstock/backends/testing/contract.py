"""The promises of :class:`~penstock.backends.Backend` that need no process to be seen."""

from collections.abc import Callable

import pytest

from penstock.backends.base import Backend
from penstock.backends.testing.node_faults import NodeFaults
from penstock.backends.testing.watching import (
    cpu_worker,
    kinds,
    make_launch,
    slots_of,
    status,
    until,
    wait_for,
    wait_for_end,
    workers_on,
)
from penstock.core import InputError, PenstockError, Recipe, ReportKind, RunState

_ORDER = list(RunState)


class BackendContract:
    """Commands are idempotent, reports are numbered without gaps, and servers come and go.

    The commands stand for jobs that end well at once, that fail with code 3, and that go on until they are stopped.
    The backend needs at least three devices.
    """

    brief: tuple[str, ...] = ("sh", "-c", "exit 0")
    failing: tuple[str, ...] = ("sh", "-c", "exit 3")
    endless: tuple[str, ...] = ("sleep", "600")

    @pytest.fixture
    def opened(self) -> Callable[[], Backend]:
        """A function that opens the same backend again and again, as servers that follow one another would."""
        raise NotImplementedError("give a function that opens the backend under test")

    @pytest.fixture
    def backend(self, opened: Callable[[], Backend]) -> Backend:
        return opened()

    @pytest.fixture
    def faults(self) -> NodeFaults | None:
        """How nodes are drained and lost; nothing for a backend without nodes that come and go."""
        return None

    # --- what there is --------------------------------------------------------------------------------------------

    def test_nodes_have_names_of_their_own_and_lost_devices_are_among_them(self, backend: Backend) -> None:
        nodes = backend.nodes()
        assert len({node.name for node in nodes}) == len(nodes) > 0
        sizes = {node.name: node.device_count for node in nodes}
        assert all(0 <= place.slot < sizes[place.node] and why for place, why in backend.unusable().items())

    def test_preparing_again_gives_the_same_recipe(self, backend: Backend) -> None:
        recipe = Recipe(command=self.brief, env=(("MINE", "yes"),), working_dir="/")
        told: list[str] = []
        ready = backend.prepare(recipe, told.append)
        assert ("MINE", "yes") in ready.env
        assert backend.prepare(recipe, told.append) == ready

    # --- from launch to end ---------------------------------------------------------------------------------------

    def test_a_run_tells_its_whole_story_in_order(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.brief, 2))
        last = wait_for_end(backend, "run-1")
        reports = backend.reports("run-1", 0)
        assert (last.kind, last.code) == (ReportKind.FINISHED, 0)
        assert [report.seq for report in reports] == list(range(1, len(reports) + 1))
        assert kinds(reports)[0] == "launched"
        started = sorted(report.worker or "" for report in reports if report.kind is ReportKind.WORKER_STARTED)
        assert started == ["w0", "w1"]
        assert sorted(report.at for report in reports) == [report.at for report in reports]
        assert status(backend, "run-1").last_seq == len(reports)

    def test_a_failure_comes_with_its_code(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.failing))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.code, last.reason) == (ReportKind.FAILED, 3, "exit")

    def test_a_run_goes_through_its_states_and_never_back(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.endless))
        seen = [status(backend, "run-1").state]
        assert status(backend, "run-1").alive

        def reaches(state: RunState) -> bool:
            seen.append(status(backend, "run-1").state)
            return seen[-1] is state

        until(lambda: reaches(RunState.RUNNING), "a running run")
        backend.stop("run-1", 0.0)
        until(lambda: reaches(RunState.ENDED), "its end")
        assert seen == sorted(seen, key=_ORDER.index)
        assert not status(backend, "run-1").alive

    def test_runs_do_not_mix(self, backend: Backend) -> None:
        first, second = slots_of(backend)[:2]
        backend.launch(make_launch(backend, self.brief, run_id="a", workers=workers_on([first])))
        backend.launch(make_launch(backend, self.failing, run_id="b", workers=workers_on([second])))
        assert wait_for_end(backend, "a").kind is ReportKind.FINISHED
        assert wait_for_end(backend, "b").kind is ReportKind.FAILED
        assert {report.run_id for report in backend.reports("a", 0)} == {"a"}

    def test_a_run_spans_nodes(self, backend: Backend) -> None:
        first = [next(place for place in slots_of(backend) if place.node == node.name) for node in backend.nodes()]
        if len(first) < 2:
            pytest.skip("the backend under test has one node")
        backend.launch(make_launch(backend, self.brief, workers=workers_on(first)))
        assert wait_for_end(backend, "run-1").kind is ReportKind.FINISHED
        exits = [report for report in backend.reports("run-1", 0) if report.kind is ReportKind.WORKER_STARTED]
        assert len(exits) == len(first)

    # --- a worker without a device --------------------------------------------------------------------------------

    def test_a_run_gives_its_devices_back_and_goes_on_without(self, backend: Backend) -> None:
        places = slots_of(backend)[:2]
        alone = cpu_worker(backend, self.endless)
        backend.launch(make_launch(backend, self.brief, workers=workers_on(places), cpu_worker=alone))
        wait_for(backend, "run-1", ReportKind.RELEASED)
        exits = [report for report in backend.reports("run-1", 0) if report.kind is ReportKind.WORKER_EXITED]
        assert sorted(report.worker or "" for report in exits) == ["w0", "w1"], "nobody is left on a device"
        until(lambda: status(backend, "run-1").state is RunState.RUNNING, "the run to go on")
        backend.launch(make_launch(backend, self.brief, run_id="run-2", workers=workers_on(places)))
        assert wait_for_end(backend, "run-2").kind is ReportKind.FINISHED, "its devices are others' now"
        with pytest.raises(PenstockError, match="given its devices back"):
            backend.resize("run-1", workers_on(places), 1)
        assert status(backend, "run-1").alive
        backend.stop("run-1", 0.0)
        assert wait_for_end(backend, "run-1").reason == "stopped"
        assert kinds(backend.reports("run-1", 0)).count("released") == 1

    def test_a_run_ends_as_its_worker_without_a_device_does(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.brief, cpu_worker=cpu_worker(backend, self.failing)))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.code, last.reason) == (ReportKind.FAILED, 3, "exit")
        assert kinds(backend.reports("run-1", 0)).count("released") == 1, "its part on devices is done all the same"

    def test_a_run_without_devices_starts_and_ends(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.failing, workers=(), cpu_worker=cpu_worker(backend, self.brief)))
        assert wait_for_end(backend, "run-1").kind is ReportKind.FINISHED
        assert "released" not in kinds(backend.reports("run-1", 0))

    def test_a_failure_on_a_device_ends_the_worker_without_one_too(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.failing, cpu_worker=cpu_worker(backend, self.endless)))
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.code) == (ReportKind.FAILED, 3)
        assert "released" not in kinds(backend.reports("run-1", 0))

    # --- nodes that go and come back ------------------------------------------------------------------------------

    def test_a_drained_node_is_not_offered_and_what_runs_there_goes_on(
        self, backend: Backend, faults: NodeFaults | None
    ) -> None:
        if faults is None:
            pytest.skip("nodes of the backend under test do not come and go")
        place = slots_of(backend)[0]
        backend.launch(make_launch(backend, self.endless, workers=workers_on([place])))
        wait_for(backend, "run-1", ReportKind.WORKER_STARTED)
        faults.drain(place.node)
        try:
            until(lambda: place.node not in {one.node for one in slots_of(backend)}, "the node not to be offered")
            assert backend.unusable()[place]
            until(lambda: status(backend, "run-1").state is RunState.RUNNING, "the run to go on")
        finally:
            faults.restore(place.node)
        until(lambda: place in slots_of(backend), "the node to be back")
        assert status(backend, "run-1").state is RunState.RUNNING
        backend.stop("run-1", 0.0)
        wait_for_end(backend, "run-1")

    def test_a_lost_node_ends_its_workers_and_serves_again_when_it_is_back(
        self, backend: Backend, faults: NodeFaults | None
    ) -> None:
        first = [next(place for place in slots_of(backend) if place.node == node.name) for node in backend.nodes()]
        if faults is None or len(first) < 2:
            pytest.skip("nodes of the backend under test do not come and go")
        lost = first[1]
        backend.launch(make_launch(backend, self.endless, workers=workers_on(first[:2])))
        wait_for(backend, "run-1", ReportKind.WORKER_STARTED, count=2)
        faults.lose(lost.node)
        try:
            assert wait_for_end(backend, "run-1").kind is ReportKind.FAILED
            until(lambda: lost in backend.unusable(), "the node not to be offered")
        finally:
            faults.restore(lost.node)
        until(lambda: lost in slots_of(backend), "the node to be back")
        backend.launch(make_launch(backend, self.brief, run_id="run-2", workers=workers_on([lost])))
        assert wait_for_end(backend, "run-2").kind is ReportKind.FINISHED

    # --- commands -------------------------------------------------------------------------------------------------

    def test_launch_is_idempotent(self, backend: Backend) -> None:
        launch = make_launch(backend, self.endless)
        backend.launch(launch)
        backend.launch(launch)
        wait_for(backend, "run-1", ReportKind.WORKER_STARTED)
        backend.stop("run-1", 0.0)
        wait_for_end(backend, "run-1")
        before = backend.reports("run-1", 0)
        assert kinds(before).count("worker_started") == 1
        backend.launch(launch)
        assert backend.reports("run-1", 0) == before
        assert not status(backend, "run-1").alive

    def test_a_later_attempt_of_an_ended_run_goes_on_in_the_same_numbers(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.failing))
        wait_for_end(backend, "run-1")
        first = backend.reports("run-1", 0)
        backend.launch(make_launch(backend, self.brief, attempt=1))
        assert wait_for_end(backend, "run-1").kind is ReportKind.FINISHED
        every = backend.reports("run-1", 0)
        assert every[: len(first)] == first
        assert [report.seq for report in every] == list(range(1, len(every) + 1))

    def test_stop_ends_a_run_once(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.endless, 2))
        wait_for(backend, "run-1", ReportKind.WORKER_STARTED, count=2)
        backend.stop("run-1", 5.0)
        backend.stop("run-1", 0.0)
        last = wait_for_end(backend, "run-1")
        assert (last.kind, last.reason) == (ReportKind.FAILED, "stopped")
        backend.stop("run-1", 0.0)
        assert kinds(backend.reports("run-1", 0)).count("failed") == 1

    def test_suspend_ends_a_run_as_suspended(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.endless))
        wait_for(backend, "run-1", ReportKind.WORKER_STARTED)
        backend.suspend("run-1")
        assert wait_for_end(backend, "run-1").kind is ReportKind.SUSPENDED

    def test_resize_makes_the_next_world_once(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.endless))
        wait_for(backend, "run-1", ReportKind.WORKER_STARTED)
        wider = workers_on(slots_of(backend)[:3])
        backend.resize("run-1", wider, 1)
        backend.resize("run-1", wider, 1)
        resized = wait_for(backend, "run-1", ReportKind.RESIZED)
        assert (resized.generation, resized.width) == (1, 3)
        assert resized.pause_s is not None
        backend.stop("run-1", 0.0)
        wait_for_end(backend, "run-1")
        assert kinds(backend.reports("run-1", 0)).count("resized") == 1

    def test_a_resize_that_was_overtaken_is_refused(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.endless, generation=3))
        wait_for(backend, "run-1", ReportKind.WORKER_STARTED)
        with pytest.raises(PenstockError, match="generation"):
            backend.resize("run-1", workers_on(slots_of(backend)[:2]), 2)
        assert "resized" not in kinds(backend.reports("run-1", 0))
        backend.stop("run-1", 0.0)
        wait_for_end(backend, "run-1")

    # --- what is kept ---------------------------------------------------------------------------------------------

    def test_ended_runs_can_be_forgotten_and_living_ones_cannot(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.endless))
        with pytest.raises(InputError, match="still lives"):
            backend.forget("run-1")
        backend.stop("run-1", 0.0)
        wait_for_end(backend, "run-1")
        backend.forget("run-1")
        backend.forget("run-1")
        assert backend.runs() == ()

    def test_another_server_finds_the_run_and_commands_it(self, opened: Callable[[], Backend]) -> None:
        first = opened()
        first.launch(make_launch(first, self.endless))
        seen = wait_for(first, "run-1", ReportKind.WORKER_STARTED).seq
        del first
        second = opened()
        assert [(one.run_id, one.alive) for one in second.runs()] == [("run-1", True)]
        assert second.runs()[0].last_seq >= seen
        second.stop("run-1", 0.0)
        wait_for_end(second, "run-1")
        assert second.reports("run-1", seen)[0].seq == seen + 1

    def test_reports_can_be_read_again_from_anywhere(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.brief))
        wait_for_end(backend, "run-1")
        every = backend.reports("run-1", 0)
        for after in (*range(len(every) + 1), 2, 0):
            assert backend.reports("run-1", after) == every[after:]

    def test_unknown_runs_are_refused(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.brief))
        wait_for_end(backend, "run-1")
        with pytest.raises(InputError, match="run-7"):
            backend.reports("run-7", 0)
        with pytest.raises(PenstockError, match="run-7"):
            backend.suspend("run-7")
        with pytest.raises(PenstockError, match="run-7"):
            backend.stop("run-7", 0.0)

    def test_usage_of_an_ended_run_is_its_totals(self, backend: Backend) -> None:
        backend.launch(make_launch(backend, self.brief))
        wait_for_end(backend, "run-1")
        assert backend.usage("run-1").memory_bytes == 0
