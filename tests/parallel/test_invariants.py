"""What must hold of every plan, whatever the model, the devices and the memory."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core import ClusterError, InputError, PlanError
from penstock.parallel import Planner, mesh_named, plan_for
from penstock.parallel.devices import MB, Mesh
from penstock.parallel.families import decoder_only
from penstock.parallel.search import Problem, search
from tests.parallel.toys import toy_tables

SLOW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(
    seed=st.integers(0, 50), ops=st.integers(3, 8), nodes=st.sampled_from([1, 2]), per_node=st.sampled_from([1, 2, 4]),
    memory_mb=st.floats(500.0, 20_000.0),
)  # fmt: skip
def test_a_found_plan_fits_and_the_bound_lies_below(
    seed: int, ops: int, nodes: int, per_node: int, memory_mb: float
) -> None:
    mesh = Mesh(nodes=nodes, per_node=per_node, memory_bytes=memory_mb * MB)
    found = search(Problem(toy_tables(seed, ops), mesh, 16), 5.0)
    for one in found.curve:
        assert one.cost.memory_mb <= memory_mb
        assert one.plan.devices == mesh.devices
        assert one.plan.ops == ops
    if found.best is not None:
        assert found.bound_s <= found.best.iteration_s * (1 + 1e-6)
        assert [one.iteration_s for one in found.curve] == sorted((c.iteration_s for c in found.curve), reverse=True)


@SLOW
@given(
    layers=st.integers(1, 6), heads=st.sampled_from([2, 4]), batch=st.sampled_from([4, 6, 8, 16]),
    cluster=st.sampled_from(["1xT4", "2xA100-40GB", "4xT4", "2x2xV100-16GB"]),
)  # fmt: skip
def test_a_planned_model_uses_all_devices_and_their_memory_at_most(
    layers: int, heads: int, batch: int, cluster: str
) -> None:
    family = decoder_only("gpt-x", hidden=128, layers=layers, heads=heads, vocabulary=512, tokens=64)
    mesh = mesh_named(cluster)
    planned = Planner(family=family, mesh=mesh, batch=batch).run(0.1)
    for one in (planned.best, *planned.others):
        assert one.plan.devices == mesh.devices
        assert one.plan.global_batch == batch
        assert one.prediction.memory_bytes <= mesh.memory_bytes
        assert planned.best.iteration_s <= one.iteration_s
    assert planned.bound_s <= planned.best.iteration_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"batch": 0}, InputError, "a global batch of 0"),
        ({"seconds": 0}, InputError, "0 seconds to search"),
        ({"memory": "500GB"}, ClusterError, "a memory limit of"),
        ({"memory": "1GB"}, PlanError, "does not fit: .* too much"),
        ({"seq": 0}, InputError, "a sequence of 0 tokens"),
    ],
)
def test_the_planner_refuses(given: dict[str, object], error: type[InputError], said: str) -> None:
    wanted: dict[str, object] = {"model": "gpt-2.6b", "cluster": "1xA100-40GB", "batch": 8, "seconds": 0.1, **given}
    with pytest.raises(error, match=said):
        plan_for(**wanted)  # type: ignore[arg-type]


def test_part_of_a_mesh_is_part_of_a_node_or_whole_nodes() -> None:
    mesh = mesh_named("2x8xA100")
    assert [(part.nodes, part.per_node) for part in map(mesh.part, (1, 3, 8, 16))] == [(1, 1), (1, 3), (1, 8), (2, 8)]
    with pytest.raises(PlanError, match="whole nodes"):
        mesh.part(12)
    with pytest.raises(ClusterError, match="1 to 16"):
        mesh.part(17)
