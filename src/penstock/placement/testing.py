"""What a placement of your own must do, as tests to inherit.

::

    from penstock.placement.testing import PlacementConformance

    class TestMine(PlacementConformance):
        strategy = MyPlacement()
"""

try:
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
except ImportError as problem:
    raise ImportError("the conformance suite needs hypothesis: pip install hypothesis pytest") from problem

from penstock.core import Cluster, InvariantError, Node
from penstock.placement.base import Ask, Placement
from penstock.placement.occupancy import Occupancy

KIND = "gpu"
BROKEN = (
    [Ask(0, 0)],
    [Ask(0, 5)],
    [Ask(0, 3), Ask(1, 2)],
    [Ask(0, 1), Ask(0, 1)],
    [Ask(0, 1, (2,))],
)
"""Asks on four free devices that no caller may make: no width, too wide, too wide together, twice, held elsewhere."""


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
        self.failed: set[int] = set()
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
        twin = self.occupancy.copy()
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

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """One device fails alone, or works again."""
        mine = [position for position, node in enumerate(self.cluster.nodes) if node.kind == KIND]
        node = data.draw(st.sampled_from(mine))
        device = data.draw(st.sampled_from(self.cluster.devices_of(node)))
        slot = device - self.cluster.devices_of(node).start
        if device in self.failed:
            self.occupancy.restore_device(node, slot)
            self.failed.remove(device)
            return
        holders = [key for key, devices in self.jobs.items() if device in devices]
        assert self.occupancy.lose_device(node, slot) == (holders[0] if holders else None)
        for key in holders:
            del self.jobs[key]
        self.failed.add(device)

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
            if device not in self.failed
        }
        assert set(used) <= usable
        assert self.occupancy.capacity == len(usable)
        assert self.occupancy.free == len(usable) - len(used)


class PlacementConformance:
    """Inherit and say which strategy; ``moves_others`` says that it may move jobs that nobody asked about."""

    strategy: Placement
    moves_others = False
    examples = 40
    """Histories that are drawn."""

    def test_any_history_leaves_a_true_record(self) -> None:
        machine = type(
            "Machine",
            (PlacementMachine,),
            {"strategy": self.strategy, "moves_others": self.moves_others},
        )
        run_state_machine_as_test(
            machine, settings=settings(max_examples=self.examples, stateful_step_count=25, deadline=None)
        )

    def test_the_last_device_can_be_had(self) -> None:
        occupancy = Occupancy(cluster_of([3, 5, 1, 8]), KIND)
        for key, width in enumerate([2, 3, 1, 4, 5]):
            self.strategy.place(occupancy, [Ask(key, width)])
        occupancy.release(1)
        changed = self.strategy.place(occupancy, [Ask(9, occupancy.free)])
        assert occupancy.free == 0
        assert len(changed[9]) == 5

    def test_a_shrinking_job_makes_room_for_a_growing_one(self) -> None:
        occupancy = Occupancy(cluster_of([4, 4]), KIND)
        self.strategy.place(occupancy, [Ask(0, 6)])
        self.strategy.place(occupancy, [Ask(1, 2)])
        changed = self.strategy.place(occupancy, [Ask(1, 6, occupancy.devices(1)), Ask(0, 2, occupancy.devices(0))])
        assert {key: len(devices) for key, devices in changed.items()} == {0: 2, 1: 6}

    def test_an_unchanged_width_changes_nothing(self) -> None:
        occupancy = Occupancy(cluster_of([4, 4]), KIND)
        held = self.strategy.place(occupancy, [Ask(0, 3), Ask(1, 3)])
        assert self.strategy.place(occupancy, [Ask(key, 3, devices) for key, devices in held.items()]) == {}

    def test_shrinking_keeps_a_part_of_what_was_held(self) -> None:
        occupancy = Occupancy(cluster_of([8, 8]), KIND)
        held = self.strategy.place(occupancy, [Ask(0, 8), Ask(1, 2)])[0]
        for width in (5, 4, 2, 1):
            now = self.strategy.place(occupancy, [Ask(0, width, held)])[0]
            assert set(now) < set(held)
            held = now

    def test_growing_into_free_room_keeps_what_was_held(self) -> None:
        occupancy = Occupancy(cluster_of([8, 8]), KIND)
        held = self.strategy.place(occupancy, [Ask(0, 1)])[0]
        for width in (2, 4, 8, 16):
            now = self.strategy.place(occupancy, [Ask(0, width, held)])[0]
            assert set(now) > set(held)
            held = now

    def test_no_asks_no_changes(self) -> None:
        assert self.strategy.place(Occupancy(cluster_of([4]), KIND), []) == {}

    def test_a_broken_contract_is_refused_and_changes_nothing(self) -> None:
        for asks in BROKEN:
            occupancy = Occupancy(cluster_of([4]), KIND)
            try:
                self.strategy.place(occupancy, asks)
            except InvariantError:
                assert occupancy.keys() == ()
                occupancy.validate()
            else:
                raise AssertionError(f"{asks} cannot be served and was not refused")
