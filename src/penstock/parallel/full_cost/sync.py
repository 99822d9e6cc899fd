"""Gradients, sharded state and shared embeddings: what devices with the same weights must tell each other."""

from dataclasses import dataclass

from penstock.parallel.full_cost.stage import StageView


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """Seconds of one stage and iteration.

    ``gradients_s``: summing gradients, as if nothing else ran; ``exposed_s``: what of it the last backward pass does
    not hide. ``gathered_s``: fetching updated weights under ZeRO 1 and 2. ``per_micro_batch_s``: what ZeRO 3 adds to
    every micro-batch.
    """

    gradients_s: float = 0.0
    exposed_s: float = 0.0
    gathered_s: float = 0.0
    per_micro_batch_s: float = 0.0
    optimizer_s: float = 0.0


def sync_of(view: StageView) -> Sync:
    """What the stage's replicas exchange under the plan's ZeRO stage."""
    fabric, zero = view.mesh.fabric, view.plan.zero
    reduced = gathered = 0.0
    wider = view.gradient_width
    for (tp, size), count in view.weights.items():
        group = view.mesh.replicas(view.stage, tp, size)
        reduced += fabric.half_s(wider * count, group) if zero else fabric.all_reduce_s(wider * count, group)
        gathered += fabric.half_s(count, group) if zero else 0.0
    if zero == 3:
        slowdown = view.mesh.trainer.overlap_slowdown
        per_micro_batch = overlapped(gathered, view.forward_s, slowdown)
        per_micro_batch += overlapped(gathered + reduced, view.backward_s, slowdown)
        return Sync(gradients_s=reduced, per_micro_batch_s=per_micro_batch, optimizer_s=optimizer_s(view))
    hidden_behind = view.backward_s if view.mesh.trainer.overlaps_gradients else 0.0
    return Sync(
        gradients_s=reduced, exposed_s=overlapped(reduced, hidden_behind, view.mesh.trainer.overlap_slowdown),
        gathered_s=gathered, optimizer_s=optimizer_s(view),
    )  # fmt: skip


def overlapped(communication_s: float, compute_s: float, slowdown: float) -> float:
    """How much longer compute and communication take together than compute alone.

    While both run, both are slowed; without anything to hide behind, communication is simply added.
    """
    both = min(communication_s, compute_s)
    return max(communication_s, compute_s) + (slowdown - 1) * both - compute_s


def optimizer_s(view: StageView) -> float:
    """One step over the parameters a device updates: all it holds, or its shard under ZeRO."""
    updated = sum(count / (size if view.plan.zero else 1) for (_, size), count in view.weights.items())
    return view.mesh.device.optimizer_s(updated / view.weight_bytes)


def tied_s(first: StageView, last: StageView, tied_bytes: float) -> float:
    """Summing the gradient of an embedding that the first and the last stage share."""
    if first.number == last.number or not tied_bytes:
        return 0.0
    tp = max(first.stage.tp[0], last.stage.tp[-1])
    far = last.offset // first.mesh.per_node != first.offset // first.mesh.per_node
    return 2 * first.mesh.fabric.send_s(tied_bytes / tp, by_network=far, senders=min(tp, first.mesh.per_node))
