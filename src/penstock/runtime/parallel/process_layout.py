"""Which process does what: one stage after the other; inside a stage ``dp``, then context, then ``tp`` innermost."""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from penstock.core import ParallelPlan, PlanError

REPLICAS, CONTEXT, TENSOR = "dp", "cp", "tp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """The place of one process in the plan."""

    rank: int
    stage: int
    replica: int
    context: int
    tensor: int


class ProcessLayout:
    """Every process's place, and the groups the plan needs; made by all processes together, in the same order."""

    def __init__(self, plan: ParallelPlan, device: torch.device) -> None:
        if dist.get_world_size() != plan.devices:
            raise PlanError(
                f"a plan for {plan.devices} devices in a group of {dist.get_world_size()} processes",
                "one process per device", f"Start it with torchrun --nproc-per-node {plan.devices}",
            )  # fmt: skip
        self.plan = plan
        self.device = device
        self.first_ranks = [sum(stage.devices for stage in plan.stages[:s]) for s in range(len(plan.stages))]
        self.place = next(place for place in self.all_coordinates() if place.rank == dist.get_rank())
        meshes = [DeviceMesh(device.type, self._ranks(s), mesh_dim_names=(REPLICAS, CONTEXT, TENSOR))
                  for s in range(len(plan.stages))]  # fmt: skip
        shared = [self._new_groups(self._ranks(s).flatten(0, 1).T) for s in range(len(plan.stages))]
        self.mesh = meshes[self.place.stage]
        self.tp_mesh = self.mesh[TENSOR]
        self.tp_group = self.mesh.get_group(TENSOR)
        self.context_group = self.mesh.get_group(CONTEXT) if plan.context > 1 else None
        self.weight_group = shared[self.place.stage]
        """The processes that hold the same weights and see other samples or other parts of the sequence."""

    def all_coordinates(self) -> list[Coordinates]:
        return [
            Coordinates(rank=int(rank), stage=s, replica=replica, context=context, tensor=tensor)
            for s in range(len(self.plan.stages))
            for (replica, context, tensor), rank in _indexed(self._ranks(s))
        ]

    def stage_coordinates(self, stage: int) -> list[Coordinates]:
        """The places of one stage that work on the same part of the sequence as this process."""
        return [
            place for place in self.all_coordinates() if place.stage == stage and place.context == self.place.context
        ]

    def tp(self, stage: int) -> int:
        return self.plan.stages[stage].tp[0]

    def replicas(self, stage: int) -> int:
        return self.plan.stages[stage].dp[0]

    def samples(self, stage: int, replica: int) -> range:
        """Which samples of a micro-batch one replica of a stage works on."""
        share = self.plan.micro_batch // self.replicas(stage)
        return range(replica * share, (replica + 1) * share)

    def positions(self, sequence: int) -> torch.Tensor:
        """The part of the sequence this process works on: one early and one late piece, so that causal work is even."""
        ways, index = self.plan.context, self.place.context
        if ways == 1:
            return torch.arange(sequence, device=self.device)
        if sequence % (2 * ways):
            raise PlanError(f"a sequence of {sequence} split {ways} ways", f"a multiple of {2 * ways}")
        pieces = torch.arange(sequence, device=self.device).chunk(2 * ways)
        return torch.cat((pieces[index], pieces[2 * ways - 1 - index]))

    def pipeline_group(self) -> dist.ProcessGroup:
        """The processes with the same place in every stage; only where all stages are split the same way."""
        columns = torch.stack([self._ranks(s).flatten() for s in range(len(self.plan.stages))], dim=1)
        return self._new_groups(columns)

    def _ranks(self, stage: int) -> torch.Tensor:
        split = self.plan.stages[stage]
        ranks = torch.arange(split.devices) + self.first_ranks[stage]
        return ranks.view(split.dp[0], self.plan.context, split.tp[0])

    def _new_groups(self, rows: torch.Tensor) -> dist.ProcessGroup:
        """One group per row; returns the one this process is in, or the last one made if it is in none."""
        made: list[tuple[list[int], dist.ProcessGroup]] = [(row.tolist(), dist.new_group(row.tolist())) for row in rows]
        return next((group for ranks, group in made if dist.get_rank() in ranks), made[-1][1])


def _indexed(ranks: torch.Tensor) -> list[tuple[tuple[int, ...], torch.Tensor]]:
    places = torch.cartesian_prod(*(torch.arange(n) for n in ranks.shape)).view(-1, ranks.dim())
    return [(tuple(place.tolist()), ranks[tuple(place)]) for place in places]
