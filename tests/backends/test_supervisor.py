"""The supervisor's decisions, watched through its host, on a clock the test moves."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.backends.agent.states import Exit, Member, RunPhase, StaleCommandError, WorkerGroup
from penstock.backends.agent.supervisor import HAND_OVER_S, JOIN_TIMEOUT_S, READY_TIMEOUT_S, Supervisor
from penstock.backends.agent.watch.stack_looks import StackLook
from penstock.core import (
    CPU_WORKER,
    NO_DEVICE,
    AgentMessage,
    DeviceSlot,
    FinishOrder,
    LeaveOrder,
    ReportKind,
    RunState,
    SuspendOrder,
    Worker,
    World,
)
from tests.backends.watching import ENDINGS, NODE, make_launch, workers

_NAMES = {World: "world", LeaveOrder: "leave", SuspendOrder: "suspend", FinishOrder: "finish"}


class RecordingHost:
    """Remembers what it was asked to do, and asserts that it could have been done."""

    def __init__(self) -> None:
        self.clock = 100.0
        self.did: list[tuple[Any, ...]] = []
        self.reports: list[tuple[ReportKind, dict[str, Any]]] = []
        self.alive: set[str] = set()
        self.worlds: dict[str, list[World]] = {}
        self.taken: set[DeviceSlot] = set()
        self.done: set[str] = set()

    def now(self) -> float:
        return self.clock

    def spawn(self, world: WorkerGroup, worker: Worker, restarts: int) -> None:
        assert worker.id not in self.alive
        assert worker.has_device or world.ids == (worker.id,)
        self.done.discard(worker.id)
        self.alive.add(worker.id)
        self.did.append(("spawn", worker.id, world.generation, restarts))

    def terminate(self, member: Member) -> None:
        assert member.worker.id in self.alive
        self.did.append(("terminate", member.worker.id))

    def kill(self, member: Member) -> None:
        assert member.worker.id in self.alive
        self.did.append(("kill", member.worker.id))

    def send(self, worker_id: str, message: AgentMessage) -> None:
        assert worker_id in self.alive
        self.did.append((_NAMES[type(message)], worker_id))
        if isinstance(message, World):
            assert not self.done & set(message.members), "a world with workers that said bye"
            assert message.members[message.rank] == worker_id
            self.worlds.setdefault(worker_id, []).append(message)

    def report(self, kind: ReportKind, **said: Any) -> None:
        self.reports.append((kind, said))

    def look(self) -> None:
        self.did.append(("look",))

    def sweep(self) -> None:
        assert self.alive <= {CPU_WORKER}

    def is_free(self, device: DeviceSlot) -> bool:
        return device not in self.taken

    def rendezvous(self, world: WorkerGroup) -> str:
        return f"place-{world.generation}"

    def told(self, kind: ReportKind) -> list[dict[str, Any]]:
        return [said for told, said in self.reports if told is kind]


class Scene:
    """A supervisor with its host, and workers that do as the test says."""

    def __init__(self, count: int, **fields: Any) -> None:
        self.host = RecordingHost()
        self.run = Supervisor(make_launch(("x",), count, **fields), self.host)
        self.run.start()
        for worker_id in sorted(self.host.alive):
            self.run.started(worker_id, 1)

    def elastic(self, *worker_ids: str) -> "Scene":
        for worker_id in worker_ids:
            self.run.hello(worker_id, True)
            self.run.ready(worker_id)
        return self

    def train(self) -> "Scene":
        self.run.joined(self.run.world.generation, 0.5)
        return self

    def exit(self, worker_id: str, code: int = 0, signal: int | None = None) -> None:
        self.host.alive.discard(worker_id)
        self.run.exited(worker_id, Exit(code, signal, (f"last words of {worker_id}",)))

    def bye(self, worker_id: str) -> None:
        self.host.done.add(worker_id)
        self.run.bye(worker_id)

    def seen(self, **positions: str) -> None:
        """A look has come back, and a moment passes."""
        found = {worker_id: (function,) for worker_id, function in positions.items()}
        self.run.looked(StackLook(text="everybody waits", path="", positions=found))
        self.later(0.1)

    def later(self, seconds: float) -> None:
        self.host.clock += seconds
        self.run.tick()


def test_grace_ends_in_a_kill_and_not_before() -> None:
    scene = Scene(1)
    scene.run.stop(10.0)
    scene.later(9.9)
    assert ("kill", "w0") not in scene.host.did
    scene.later(0.2)
    assert scene.host.did[-2:] == [("terminate", "w0"), ("kill", "w0")]


def test_a_polite_suspension_that_is_ignored_becomes_a_signal_and_then_a_kill() -> None:
    scene = Scene(1, grace_s=5.0).elastic("w0").train()
    scene.run.suspend()
    scene.later(5.1)
    scene.later(5.1)
    assert scene.host.did[-3:] == [("suspend", "w0"), ("terminate", "w0"), ("kill", "w0")]
    scene.exit("w0", 137, 9)
    assert scene.host.reports[-1] == (ReportKind.SUSPENDED, {"step": None})


def test_a_suspension_that_crashes_before_saving_is_a_failure() -> None:
    scene = Scene(1).elastic("w0").train()
    scene.run.suspend()
    scene.exit("w0", 1)
    assert scene.host.told(ReportKind.FAILED) == [{"code": 1, "reason": "exit", "tail": ("last words of w0",)}]


def test_a_stop_overrules_a_suspension() -> None:
    scene = Scene(1).elastic("w0").train()
    scene.run.suspend()
    scene.run.stop(0.0)
    scene.exit("w0", 143, 15)
    assert scene.host.told(ReportKind.FAILED)[0]["reason"] == "stopped"
    assert not scene.host.told(ReportKind.SUSPENDED)


def test_a_plain_run_whose_training_is_over_is_ended_and_has_finished() -> None:
    scene = Scene(2, grace_s=5.0)
    scene.run.finish()
    scene.run.finish()
    assert scene.host.did[-2:] == [("terminate", "w0"), ("terminate", "w1")]
    scene.later(5.1)
    scene.exit("w0", 143, 15)
    scene.exit("w1", 137, 9)
    assert scene.host.reports[-1] == (ReportKind.FINISHED, {"code": 0})


def test_elastic_workers_end_their_loops_themselves_and_what_they_do_after_it_counts() -> None:
    scene = Scene(2).elastic("w0", "w1").train()
    scene.run.finish()
    assert scene.host.did[-2:] == [("finish", "w0"), ("finish", "w1")]
    scene.later(60.0)
    assert "terminate" not in {did[0] for did in scene.host.did}
    scene.bye("w0")
    scene.bye("w1")
    scene.exit("w0", 1)
    scene.exit("w1")
    assert scene.host.reports[-1][1]["reason"] == "exit"


def test_whoever_joins_a_training_that_is_over_hears_of_it() -> None:
    scene = Scene(2).elastic("w0", "w1").train()
    scene.run.resize(1, workers(3))
    scene.run.finish()
    scene.elastic("w2")
    assert scene.host.did[-1] == ("finish", "w2")
    scene.exit("w1", 137, 9)
    assert scene.host.did[-1] == ("finish", "w2")


def test_a_run_that_is_leaving_is_not_finished_by_its_metric() -> None:
    scene = Scene(1).elastic("w0").train()
    scene.run.suspend()
    scene.run.finish()
    scene.run.suspended(7)
    scene.exit("w0")
    assert scene.host.reports[-1] == (ReportKind.SUSPENDED, {"step": 7})


def test_a_plain_run_restarts_only_when_all_are_gone() -> None:
    scene = Scene(2)
    scene.run.resize(1, workers(3))
    scene.exit("w0", 143, 15)
    assert [did for did in scene.host.did if did[0] == "spawn"][2:] == []
    scene.run.resize(2, workers(1))
    scene.exit("w1", 143, 15)
    assert [did for did in scene.host.did if did[0] == "spawn"][2:] == [("spawn", "w0", 2, 1)]
    assert scene.host.told(ReportKind.RESIZED) == []
    scene.run.started("w0", 2)
    assert scene.host.told(ReportKind.RESIZED) == [{"generation": 2, "width": 1, "pause_s": 0.0, "in_place": False}]


def test_a_resize_that_was_overtaken_is_refused_whatever_workers_it_names() -> None:
    scene = Scene(1).elastic("w0").train()
    scene.run.resize(2, workers(2))
    scene.run.resize(4, workers(3))
    did = list(scene.host.did)
    scene.run.resize(4, workers(3))
    for generation, count in ((3, 3), (2, 2), (4, 2)):
        with pytest.raises(StaleCommandError, match=f"generation {generation} was overtaken by generation 4"):
            scene.run.resize(generation, workers(count))
    assert scene.host.did == did, "none of these changes anything"


def test_a_worker_of_a_first_world_that_ends_well_leaves_the_others_at_work() -> None:
    scene = Scene(2)
    scene.exit("w0")
    assert scene.run.phase is RunPhase.RUNNING
    assert ("terminate", "w1") not in scene.host.did
    scene.exit("w1")
    assert scene.host.reports[-1] == (ReportKind.FINISHED, {"code": 0})


def test_newcomers_are_ended_with_the_last_worker_that_has_the_state() -> None:
    scene = Scene(1).elastic("w0").train()
    scene.run.resize(1, workers(2))
    scene.elastic("w1")
    scene.exit("w0")
    assert scene.host.did[-1] == ("terminate", "w1"), "they came for nothing"


def test_the_next_world_waits_until_the_present_one_has_met() -> None:
    scene = Scene(1).elastic("w0")
    scene.run.resize(1, workers(2))
    scene.elastic("w1")
    assert "w1" not in scene.host.worlds
    scene.train()
    assert scene.host.worlds["w1"][0].survivors == ("w0",)


def test_a_death_while_newcomers_get_ready_concerns_only_the_present() -> None:
    scene = Scene(2).elastic("w0", "w1").train()
    scene.run.resize(1, workers(3))
    scene.exit("w1", 137, 9)
    assert [world.generation for world in scene.host.worlds["w0"]] == [0, 2]
    scene.elastic("w2")
    scene.train()
    assert scene.host.worlds["w2"][-1].members == ("w0", "w2")
    assert scene.host.worlds["w2"][-1].generation == 3


def test_a_death_in_an_unmet_world_goes_back_to_those_with_state() -> None:
    scene = Scene(1).elastic("w0").train()
    scene.run.resize(1, workers(3))
    scene.elastic("w1", "w2")
    scene.exit("w1", 137, 9)
    assert scene.host.worlds["w2"][-1].survivors == ("w0",)
    scene.exit("w0", 137, 9)
    assert scene.run.phase is RunPhase.ENDING
    scene.exit("w2", 143, 15)
    assert scene.host.told(ReportKind.FAILED)[0]["tail"] == ("last words of w1",)


def test_a_worker_that_comes_back_waits_for_its_old_process_to_end() -> None:
    scene = Scene(2).elastic("w0", "w1").train()
    scene.run.resize(1, workers(1))
    scene.train()
    scene.run.resize(2, workers(2))
    assert [did for did in scene.host.did if did[:2] == ("spawn", "w1")] == [("spawn", "w1", 0, 0)]
    scene.exit("w1")
    assert scene.host.did[-1] == ("spawn", "w1", 2, 0)


def test_a_leaver_that_stays_is_ended() -> None:
    scene = Scene(2, grace_s=5.0).elastic("w0", "w1").train()
    scene.run.resize(1, workers(1))
    scene.later(60.0)
    assert ("terminate", "w1") not in scene.host.did
    scene.train()
    scene.later(5.1)
    scene.later(5.1)
    assert scene.host.did[-2:] == [("terminate", "w1"), ("kill", "w1")]


def test_the_same_worker_on_another_device_means_a_restart() -> None:
    scene = Scene(2).elastic("w0", "w1").train()
    scene.run.resize(1, (workers(1)[0], Worker(id="w1", rank=1, node=NODE, slot=5)))
    assert scene.run.phase is RunPhase.RESTARTING


def test_a_newcomer_that_never_gets_ready_is_dropped() -> None:
    scene = Scene(1).elastic("w0").train()
    scene.run.resize(1, workers(2))
    scene.later(READY_TIMEOUT_S + 1)
    assert scene.host.did[-1] == ("kill", "w1")
    scene.exit("w1", 137, 9)
    assert scene.host.told(ReportKind.RESIZED)[-1]["width"] == 1
    assert scene.run.phase is RunPhase.RUNNING


def test_a_world_that_never_meets_is_a_hang() -> None:
    scene = Scene(2).elastic("w0", "w1")
    scene.later(JOIN_TIMEOUT_S + 1)
    assert scene.host.did[-1] == ("look",)
    scene.seen()
    for worker_id in ("w0", "w1"):
        scene.exit(worker_id, 143, 15)
    assert scene.host.told(ReportKind.FAILED) == [{"code": 124, "reason": "hang"}]


def test_a_first_step_may_take_long_once_the_world_has_met() -> None:
    scene = Scene(2, hang_after_s=3600.0).elastic("w0", "w1")
    scene.run.met(scene.run.world.generation)
    scene.later(10 * JOIN_TIMEOUT_S)
    assert scene.run.phase is RunPhase.RUNNING
    scene.later(3600.0)
    assert scene.host.did[-1] == ("look",)
    assert scene.run.phase is RunPhase.RUNNING
    scene.seen()
    assert scene.run.phase is RunPhase.ENDING


def test_what_is_learned_ends_a_run_whose_workers_have_not_moved() -> None:
    scene = Scene(2, learns_hangs=True).elastic("w0", "w1").train()
    for _ in range(10):
        scene.host.clock += 1.0
        scene.run.trained("w0")
    scene.later(61.0)
    scene.seen(w0="all_reduce", w1="load")
    assert scene.run.phase is RunPhase.RUNNING
    assert "the longest time between two steps was 1 s" in scene.host.told(ReportKind.STUCK)[0]["reason"]
    for _ in range(2):
        scene.later(300.0)
        scene.seen(w0="all_reduce", w1="load")
    assert scene.run.phase is RunPhase.ENDING
    assert scene.host.did.count(("look",)) == 3


def test_what_is_learned_does_not_end_a_plain_run_or_one_that_has_done_its_steps() -> None:
    plain, done = Scene(1, learns_hangs=True), Scene(1, learns_hangs=True).elastic("w0").train()
    for scene in (plain, done):
        for _ in range(10):
            scene.host.clock += 1.0
            scene.run.stepped()
    done.bye("w0")
    for scene in (plain, done):
        for _ in range(20):
            scene.later(1000.0)
            scene.seen()
        assert scene.run.phase is RunPhase.RUNNING
        assert scene.host.did.count(("look",)) == 1


def test_a_look_that_comes_back_after_a_sign_of_life_tells_nothing() -> None:
    scene = Scene(1, hang_after_s=10.0)
    scene.later(11.0)
    scene.run.sign_of_life()
    scene.seen()
    assert not scene.host.told(ReportKind.STUCK)
    assert scene.run.phase is RunPhase.RUNNING


def test_a_newcomer_waits_for_its_device_and_no_longer() -> None:
    scene = Scene(1).elastic("w0").train()
    scene.host.taken = {DeviceSlot(NODE, 1)}
    scene.run.resize(1, workers(2))
    scene.later(1.0)
    assert "w1" not in scene.host.alive
    scene.host.taken = set()
    scene.later(0.1)
    assert "w1" in scene.host.alive


def test_leavers_go_first_when_newcomers_wait_for_devices() -> None:
    scene = Scene(2).elastic("w0", "w1").train()
    scene.host.taken = {DeviceSlot(NODE, 2)}
    scene.run.resize(1, (workers(1)[0], Worker(id="w2", rank=1, node=NODE, slot=2)))
    assert scene.host.did[-2:] == [("world", "w0"), ("leave", "w1")]
    scene.train()
    scene.exit("w1")
    assert scene.host.told(ReportKind.RESIZED) == []
    scene.host.taken = set()
    scene.later(0.1)
    scene.elastic("w2").train()
    assert scene.host.told(ReportKind.RESIZED) == [{"generation": 2, "width": 2, "pause_s": 1.0, "in_place": True}]


def test_a_restart_waits_for_its_devices_and_can_be_stopped_meanwhile() -> None:
    for free in (True, False):
        scene = Scene(1)
        scene.host.taken = {DeviceSlot(NODE, 2)}
        scene.run.resize(1, workers(1, first=2))
        scene.exit("w0", 143, 15)
        assert (scene.host.alive, scene.run.phase) == (set(), RunPhase.RESTARTING)
        if free:
            scene.host.taken = set()
            scene.later(0.1)
            assert scene.host.alive == {"w2"}
        else:
            scene.run.stop(1.0)
            assert scene.run.phase is RunPhase.OVER


def test_a_device_that_is_never_left_is_shared_in_the_end() -> None:
    scene = Scene(1).elastic("w0").train()
    scene.host.taken = {DeviceSlot(NODE, 1)}
    scene.run.resize(1, workers(2))
    scene.later(HAND_OVER_S)
    assert "w1" in scene.host.alive


def test_no_world_is_announced_once_a_worker_said_bye() -> None:
    scene = Scene(2).elastic("w0", "w1").train()
    scene.run.resize(1, (workers(2)[1], Worker(id="w2", rank=1, node=NODE, slot=2)))
    scene.bye("w0")
    scene.exit("w0")
    scene.elastic("w2")
    assert "w2" not in scene.host.worlds
    scene.exit("w1", 1)
    assert scene.host.told(ReportKind.FAILED) == []
    scene.exit("w2", 143, 15)
    assert scene.host.told(ReportKind.FINISHED) == [{"code": 0}]


@pytest.mark.parametrize("first", ["w0", "w1"])
def test_a_script_that_fails_after_its_last_step_has_failed(first: str) -> None:
    scene = Scene(2).elastic("w0", "w1").train()
    scene.bye("w0")
    scene.bye("w1")
    scene.exit(first, 7)
    scene.exit("w1" if first == "w0" else "w0", 0)
    [said] = scene.host.told(ReportKind.FAILED)
    assert (said["code"], said["reason"], said["tail"]) == (7, "exit", (f"last words of {first}",))
    assert scene.host.told(ReportKind.FINISHED) == []


def test_a_worker_lost_on_the_way_does_not_spoil_the_end() -> None:
    scene = Scene(2).elastic("w0", "w1").train()
    scene.exit("w1", 137, 9)
    scene.bye("w0")
    scene.exit("w0")
    assert scene.host.told(ReportKind.FINISHED) == [{"code": 0}]


def test_a_worker_that_is_done_is_not_started_again_for_a_world_that_still_waits_for_others() -> None:
    scene = Scene(2).elastic("w0", "w1").train()
    scene.run.resize(1, workers(3))
    scene.bye("w0")
    scene.exit("w0")
    scene.later(1.0)
    assert "w0" not in scene.host.alive
    scene.exit("w1")
    scene.exit("w2", 143, 15)
    assert scene.host.told(ReportKind.FINISHED) == [{"code": 0}]


def test_elastic_others_go_on_without_a_worker_whose_place_is_taken_away() -> None:
    scene = Scene(3).elastic("w0", "w1", "w2").train()
    scene.run.leaving("w1", 10.0, "evicted")
    assert scene.run.world.ids == ("w0", "w2")
    assert scene.host.did[-1] == ("leave", "w1")
    scene.exit("w1")
    scene.train()
    assert [said["width"] for said in scene.host.told(ReportKind.RESIZED)] == [2]


@pytest.mark.parametrize("elastic", [True, False])
def test_a_run_that_cannot_go_on_elsewhere_saves_while_its_place_is_taken_away(elastic: bool) -> None:
    scene = Scene(1 if elastic else 2)
    if elastic:
        scene.elastic("w0").train()
    scene.run.leaving("w0", 10.0, "evicted")
    assert scene.host.did[-1] == (("suspend", "w0") if elastic else ("terminate", "w1"))
    scene.later(8.1)
    assert scene.host.did[-1][0] == ("terminate" if elastic else "kill")
    for worker_id in sorted(scene.host.alive):
        scene.exit(worker_id, 143, 15)
    assert scene.host.told(ReportKind.FAILED)[0]["reason"] == "evicted"


def test_a_place_is_held_for_a_worker_that_is_started_again_there_and_for_no_other() -> None:
    scene = Scene(2)
    stays, goes = workers(2)
    scene.run.resize(1, (stays,))
    scene.exit("w1", 143, 15)
    assert not scene.run.returns(goes)
    assert scene.run.returns(stays)
    scene.exit("w0", 143, 15)
    assert scene.host.alive == {"w0"}
    assert not scene.run.returns(stays), "it is there"


def test_commands_are_refused_once_a_run_ends() -> None:
    scene = Scene(1)
    scene.run.stop(5.0)
    for command in (scene.run.suspend, lambda: scene.run.resize(1, workers(2))):
        with pytest.raises(StaleCommandError, match="ending"):
            command()


_MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("resize"), st.integers(1, 4)),
        st.tuples(st.just("started"), st.integers(0, 3)),
        st.tuples(st.just("ready"), st.integers(0, 3)),
        st.tuples(st.just("joined"), st.just(0)),
        st.tuples(st.just("exit"), st.integers(0, 3)),
        st.tuples(st.just("die"), st.integers(0, 3)),
        st.tuples(st.sampled_from(["bye", "leaving"]), st.integers(0, 3)),
        st.tuples(st.sampled_from(["take", "free"]), st.integers(0, 3)),
        st.tuples(st.just("tick"), st.sampled_from([1, 7, 200, 700])),
        st.tuples(st.sampled_from(["suspend", "stop"]), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(count=st.integers(1, 4), moves=_MOVES)
def test_whatever_happens_a_run_ends_once_and_its_worlds_only_go_forward(
    count: int, moves: list[tuple[str, int]]
) -> None:
    scene = Scene(count, hang_after_s=500.0)
    for number, (move, argument) in enumerate(moves):
        _move(scene, move, argument, number)
        _check(scene)
    scene.run.stop(0.0)
    while scene.host.alive:
        scene.exit(min(scene.host.alive), 137, 9)
    _check(scene)
    assert scene.run.phase is RunPhase.OVER
    assert [kind for kind, _ in scene.host.reports if kind in ENDINGS] == [scene.host.reports[-1][0]]


def _move(scene: Scene, move: str, argument: int, number: int) -> None:
    run, worker_id = scene.run, f"w{argument}"
    try:
        match move:
            case "resize":
                run.resize(number + 1, workers(argument))
            case "started" if worker_id in scene.host.alive:
                run.started(worker_id, number)
            case "ready":
                scene.elastic(worker_id)
            case "joined":
                run.joined(run.world.generation, 0.1)
            case "exit" | "die" if worker_id in scene.host.alive:
                scene.exit(worker_id, 0 if move == "exit" else 1)
            case "bye" if worker_id in scene.host.alive:
                scene.bye(worker_id)
            case "take":
                scene.host.taken.add(DeviceSlot(NODE, argument))
            case "free":
                scene.host.taken.discard(DeviceSlot(NODE, argument))
            case "tick":
                scene.later(argument)
            case "leaving":
                run.leaving(worker_id, 5.0, "evicted")
            case "suspend":
                run.suspend()
            case "stop":
                run.stop(3.0)
    except StaleCommandError:
        assert run.phase in (RunPhase.ENDING, RunPhase.OVER)


def _check(scene: Scene) -> None:
    host, run = scene.host, scene.run
    assert set(run.members) == host.alive
    assert (run.phase is RunPhase.OVER) == bool(host.reports and host.reports[-1][0] in ENDINGS)
    assert host.alive or run.phase is RunPhase.OVER or (run.phase is RunPhase.RESTARTING and host.taken)
    resized = [said["generation"] for said in host.told(ReportKind.RESIZED)]
    assert resized == sorted(resized)
    for told in host.worlds.values():
        generations = [world.generation for world in told]
        assert generations == sorted(set(generations))


CPU = Worker(id=CPU_WORKER, rank=0, node=NODE, slot=NO_DEVICE, command=("score",))


def test_devices_are_released_when_their_workers_have_ended_well() -> None:
    scene = Scene(2, cpu_worker=CPU)
    assert ("spawn", CPU_WORKER, 0, 0) in scene.host.did
    scene.exit("w0")
    assert not scene.host.told(ReportKind.RELEASED), "one is still on its device"
    scene.exit("w1")
    assert scene.host.told(ReportKind.RELEASED) == [{}]
    assert scene.host.did[-1] == ("finish", CPU_WORKER)
    assert (scene.run.phase, scene.run.state) == (RunPhase.RELEASED, RunState.RUNNING)
    with pytest.raises(StaleCommandError, match="given its devices back"):
        scene.run.resize(1, workers(1))
    scene.later(10 * READY_TIMEOUT_S)
    scene.exit(CPU_WORKER)
    assert scene.host.reports[-1] == (ReportKind.FINISHED, {"code": 0})


def test_a_worker_without_a_device_that_dies_leaves_the_others_at_work() -> None:
    scene = Scene(2, cpu_worker=CPU)
    scene.exit(CPU_WORKER, 3)
    assert scene.run.phase is RunPhase.RUNNING
    scene.exit("w0")
    scene.exit("w1")
    told = [kind for kind, _ in scene.host.reports][-2:]
    assert told == [ReportKind.RELEASED, ReportKind.FAILED], "what is done on devices is not done again"
    assert scene.host.reports[-1][1] == {"code": 3, "reason": "exit", "tail": ("last words of cpu",)}


def test_one_that_is_done_before_the_others_is_a_plain_end() -> None:
    scene = Scene(1, cpu_worker=CPU)
    scene.exit(CPU_WORKER)
    scene.exit("w0")
    assert scene.host.reports[-1] == (ReportKind.FINISHED, {"code": 0})
    assert not scene.host.told(ReportKind.RELEASED)


def test_a_worker_that_dies_on_its_device_ends_the_one_without() -> None:
    scene = Scene(1, cpu_worker=CPU)
    scene.exit("w0", 1)
    assert scene.host.did[-1] == ("terminate", CPU_WORKER)
    scene.exit(CPU_WORKER, 143, 15)
    assert scene.host.told(ReportKind.FAILED) == [{"code": 1, "reason": "exit", "tail": ("last words of w0",)}]
    assert not scene.host.told(ReportKind.RELEASED)


def test_a_restart_in_another_width_leaves_it_at_work() -> None:
    scene = Scene(1, cpu_worker=CPU)
    scene.run.resize(1, workers(2))
    assert ("terminate", CPU_WORKER) not in scene.host.did
    scene.exit("w0", 143, 15)
    assert {"w0", "w1", CPU_WORKER} == scene.host.alive
    scene.run.started("w0", 1)
    scene.run.started("w1", 1)
    assert scene.host.told(ReportKind.RESIZED)[0]["width"] == 2


@pytest.mark.parametrize("is_released", [False, True])
def test_stop_and_suspend_reach_it_wherever_the_run_stands(is_released: bool) -> None:
    for command, kind in ((lambda run: run.stop(0.0), ReportKind.FAILED), (Supervisor.suspend, ReportKind.SUSPENDED)):
        scene = Scene(1, cpu_worker=CPU)
        if is_released:
            scene.exit("w0")
        command(scene.run)
        assert ("terminate", CPU_WORKER) in scene.host.did
        for worker_id in sorted(scene.host.alive):
            scene.exit(worker_id, 143, 15)
        assert scene.host.reports[-1][0] is kind


def test_a_run_may_begin_without_devices_and_is_told_that_nobody_else_comes() -> None:
    scene = Scene(0, cpu_worker=CPU)
    assert scene.run.state is RunState.RUNNING
    scene.run.hello(CPU_WORKER, False)
    assert scene.host.did[-1] == ("finish", CPU_WORKER)
    scene.exit(CPU_WORKER, 1)
    assert scene.host.told(ReportKind.FAILED)[0]["code"] == 1
    assert not scene.host.told(ReportKind.RELEASED)


def test_one_whose_place_is_taken_away_ends_nobody_else() -> None:
    scene = Scene(1, cpu_worker=CPU)
    scene.run.leaving(CPU_WORKER, 10.0, "evicted")
    assert scene.run.phase is RunPhase.RUNNING
    assert ("terminate", "w0") not in scene.host.did
