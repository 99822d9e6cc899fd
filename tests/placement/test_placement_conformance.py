"""What every strategy owes its caller, whatever happens to the cluster."""

import pickle

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.core import Cluster, InvariantError, Node, UnknownNameError
from penstock.placement import PLACEMENTS, Ask, Occupancy, Placement, placement_named

KIND = "gpu"


def cluster_of(sizes: list[int], foreign: int = 0) -> Cluster:
    """Nodes of the given sizes, the first ``foreign`` preceded by a node of another kind."""
    nodes: list[Node] = []
    for i, size in enumerate(sizes):
        if i < foreign:
            nodes.append(Node(name=f"other-{i}", device_count=3, kind="other"))
        nodes.append(Node(name=f"node-{i}", device_count=size, kind=KIND))
    return Cluster(tuple(nodes))


class PlacementMachine(RuleBasedStateMachine):
    """Jobs start, change width and stop while nodes go, come back and are added; a plain dict keeps the truth."""

    strategy: Placement
    moves_others = False

    @initialize(
        sizes=st.one_of(
            st.tuples(st.integers(1, 6), st.sampled_from([1, 2, 4, 8])).map(lambda shape: [shape[1]] * shape[0]),
            st.lists(st.integers(1, 9), min_size=1, max_size=6),
        ),
        foreign=st.integers(0, 2),
    )
    def build(self, sizes: list[int], foreign: int) -> None:
        self.cluster = cluster_of(sizes, foreign)
        self.occupancy = Occupancy(self.cluster, KIND)
        self.down: set[int] = set()
        self.jobs: dict[int, tuple[int, ...]] = {}
        self.next_key = 0

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        asked = data.draw(st.lists(st.sampled_from(sorted(self.jobs)), unique=True)) if self.jobs else []
        starting = data.draw(st.integers(0 if asked else 1, 3))
        asked += range(self.next_key, self.next_key + starting)
        room = self.occupancy.free + sum(len(self.jobs.get(key, ())) for key in asked)
        assume(room >= len(asked) > 0)
        asks = []
        for position, key in enumerate(asked):
            width = data.draw(st.integers(1, room - (len(asked) - position - 1)))
            asks.append(Ask(key, width, self.jobs.get(key, ())))
            room -= width
        self.next_key += starting
        self.place(asks)

    def place(self, asks: list[Ask]) -> None:
        twin = pickle.loads(pickle.dumps(self.occupancy))
        changed = self.strategy.place(self.occupancy, asks)
        assert self.strategy.place(twin, asks) == changed
        before = dict(self.jobs)
        self.jobs.update(changed)
        for key, devices in changed.items():
            assert devices != before.get(key), "a job is reported that did not change"
        for ask in asks:
            assert len(self.jobs[ask.key]) == ask.width
        if not self.moves_others:
            assert changed.keys() == {ask.key for ask in asks if ask.width != len(ask.held)}
        for key in changed.keys() - {ask.key for ask in asks}:
            assert len(self.jobs[key]) == len(before[key]), "a moved job changed its width"

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.jobs)))
        self.occupancy.release(key)
        del self.jobs[key]

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        node = data.draw(st.integers(0, len(self.cluster.nodes) - 1))
        there = set(self.cluster.devices_of(node))
        expected = {key for key, devices in self.jobs.items() if there & set(devices)}
        assert set(self.occupancy.lose_node(node)) == expected
        assert self.occupancy.lose_node(node) == []
        for key in expected:
            del self.jobs[key]
        self.down.add(node)

    @precondition(lambda self: self.down)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(sorted(self.down)))
        self.occupancy.restore_node(node)
        self.down.remove(node)

    @rule(size=st.integers(1, 9), kind=st.sampled_from([KIND, "other"]))
    def add(self, size: int, kind: str) -> None:
        new = Node(name=f"new-{len(self.cluster.nodes)}", device_count=size, kind=kind)
        self.cluster = Cluster((*self.cluster.nodes, new))
        self.occupancy.add_node(self.cluster)

    @invariant()
    def truth(self) -> None:
        self.occupancy.validate()
        assert set(self.occupancy.keys()) == self.jobs.keys()
        assert all(self.occupancy.devices(key) == devices for key, devices in self.jobs.items())
        used = [device for devices in self.jobs.values() for device in devices]
        assert len(set(used)) == len(used)
        usable = {
            device
            for position, node in enumerate(self.cluster.nodes)
            if node.kind == KIND and position not in self.down
            for device in self.cluster.devices_of(position)
        }
        assert set(used) <= usable
        assert self.occupancy.capacity == len(usable)
        assert self.occupancy.free == len(usable) - len(used)


def test_any_history_leaves_a_true_record(strategy: Placement) -> None:
    machine = type(
        "Machine",
        (PlacementMachine,),
        {"strategy": strategy, "moves_others": strategy.name == "buddy"},
    )
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=25, deadline=None))


def test_the_last_device_can_be_had(strategy: Placement) -> None:
    occupancy = Occupancy(cluster_of([3, 5, 1, 8]), KIND)
    for key, width in enumerate([2, 3, 1, 4, 5]):
        strategy.place(occupancy, [Ask(key, width)])
    occupancy.release(1)
    changed = strategy.place(occupancy, [Ask(9, occupancy.free)])
    assert occupancy.free == 0
    assert len(changed[9]) == 5


def test_a_shrinking_job_makes_room_for_a_growing_one(strategy: Placement) -> None:
    occupancy = Occupancy(cluster_of([4, 4]), KIND)
    strategy.place(occupancy, [Ask(0, 6)])
    strategy.place(occupancy, [Ask(1, 2)])
    changed = strategy.place(occupancy, [Ask(1, 6, occupancy.devices(1)), Ask(0, 2, occupancy.devices(0))])
    assert {key: len(devices) for key, devices in changed.items()} == {0: 2, 1: 6}


def test_an_unchanged_width_changes_nothing(strategy: Placement) -> None:
    occupancy = Occupancy(cluster_of([4, 4]), KIND)
    held = strategy.place(occupancy, [Ask(0, 3), Ask(1, 3)])
    assert strategy.place(occupancy, [Ask(key, 3, devices) for key, devices in held.items()]) == {}


def test_shrinking_keeps_a_part_of_what_was_held(strategy: Placement) -> None:
    occupancy = Occupancy(cluster_of([8, 8]), KIND)
    held = strategy.place(occupancy, [Ask(0, 8), Ask(1, 2)])[0]
    for width in (5, 4, 2, 1):
        now = strategy.place(occupancy, [Ask(0, width, held)])[0]
        assert set(now) < set(held)
        held = now


def test_growing_into_free_room_keeps_what_was_held(strategy: Placement) -> None:
    occupancy = Occupancy(cluster_of([8, 8]), KIND)
    held = strategy.place(occupancy, [Ask(0, 1)])[0]
    for width in (2, 4, 8, 16):
        now = strategy.place(occupancy, [Ask(0, width, held)])[0]
        assert set(now) > set(held)
        held = now


@pytest.mark.parametrize(
    "asks",
    [
        pytest.param([Ask(0, 0)], id="no width"),
        pytest.param([Ask(0, 5)], id="too wide"),
        pytest.param([Ask(0, 3), Ask(1, 2)], id="too wide together"),
        pytest.param([Ask(0, 1), Ask(0, 1)], id="twice"),
        pytest.param([Ask(0, 1, (2,))], id="holds something else"),
    ],
)
def test_a_broken_contract_is_refused_and_changes_nothing(strategy: Placement, asks: list[Ask]) -> None:
    occupancy = Occupancy(cluster_of([4]), KIND)
    with pytest.raises(InvariantError):
        strategy.place(occupancy, asks)
    assert occupancy.keys() == ()
    occupancy.validate()


def test_no_asks_no_changes(strategy: Placement) -> None:
    assert strategy.place(Occupancy(cluster_of([4]), KIND), []) == {}


def test_names_are_how_strategies_are_found(strategy: Placement) -> None:
    assert placement_named(strategy.name) is strategy
    assert strategy.summary
    assert PLACEMENTS[0] == "buddy"


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'best-fit'"):
        placement_named("bestfit")
