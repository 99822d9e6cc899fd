"""Where a plan runs: devices, network, and how the trainer behaves between its kernels."""

from dataclasses import dataclass
from statistics import NormalDist

from penstock.core import ParallelStage
from penstock.network import Fabric, Group
from penstock.parallel.devices.mesh import Mesh
from penstock.parallel.operator_costs import DeviceModel

EAGER = 2.8
"""Traffic of element-wise kernels one by one, counted for a layer of Llama: a norm in fp32 moves 28 bytes per element
where a fused one moves 4, rotary positions 20 and not 4, a gated activation 10 and not 6, a residual 6 as before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """What a trainer does with communication and between its products.

    ``overlaps_gradients``: gradients travel while the last backward pass still runs; both are slowed by
    ``overlap_slowdown`` then (Galvatron measures about 1.3). ``scatters_stage_inputs``: tensor-parallel ranks send a
    part each of what the next stage needs, and gather it there (Megatron-LM, DeepSpeed). ``gradient_bytes``: of an
    element while gradients are summed over micro-batches and replicas, 0 where they are as wide as weights;
    Megatron-LM and torchtitan sum those of bf16 in fp32. ``traffic``: of element-wise kernels against fused ones,
    :data:`EAGER` as PyTorch runs them without its compiler. ``products``, ``attention``: the rates of its products and
    of its fused attention against those the device is priced with. ``fp8``: linear layers are computed in fp8.
    ``overlaps_tensors``: collectives of tensor parallelism run behind the products they belong to, a part for each
    rank (Transformer Engine's user buffers). ``device_spread``: standard deviation of the speed of equal devices. A
    synchronous step waits for the slowest; Sinha et al. (SC'22) find 8 % between devices of one cluster, here read as
    four standard deviations.
    """

    overlaps_gradients: bool = True
    overlap_slowdown: float = 1.3
    scatters_stage_inputs: bool = True
    gradient_bytes: float = 0.0
    traffic: float = 1.0
    products: float = 1.0
    attention: float = 1.0
    fp8: bool = False
    overlaps_tensors: bool = False
    device_spread: float = 0.02


@dataclass(frozen=True, kw_only=True)
class PricedMesh(Mesh):
    """A mesh with the models that price work on it: kernels, collectives, and what the trainer does with both."""

    device: DeviceModel
    fabric: Fabric
    trainer: Trainer = Trainer()

    def replicas(self, stage: ParallelStage, tp: int, size: int) -> Group:
        """The ``size`` devices of a stage that hold the same weights: neighbours but for the ``tp`` ranks between."""
        here = min(self.per_node, stage.devices)
        inside = min(size, max(1, here // tp))
        return Group(inside, size // inside, sharing=max(1, here // inside))

    def straggling(self, devices: int) -> float:
        """How much longer the slowest of ``devices`` takes than the slowest of one node, where devices are measured."""
        return 1.0 + self.trainer.device_spread * max(0.0, _slowest(devices) - _slowest(self.per_node))


def _slowest(count: int) -> float:
    """Expected largest of ``count`` standard normal draws (Blom's approximation)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25)) if count > 1 else 0.0
