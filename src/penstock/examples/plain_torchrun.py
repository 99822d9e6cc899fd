"""A training script as torchrun's users write it, without the library: Penstock runs it too, and resizes by restarting.

    python plain_torchrun.py
    torchrun --standalone --nproc-per-node=2 plain_torchrun.py
    penstock run --work "300 steps" --deadline 5m -- plain_torchrun.py --steps 300

It does by hand what a plain script must do to live well with restarts: save on SIGTERM, go on from the newest
checkpoint, and print its progress.
"""

import argparse
import os
import signal
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def batch_of(step: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(size, 16, generator=torch.Generator().manual_seed(step))
    return x, x.square().sum(1, keepdim=True).sqrt()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=128, help="samples per step, all workers together")
    args = parser.parse_args()

    torch.set_num_threads(1)
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
    model: nn.Module = DistributedDataParallel(net) if size > 1 else net
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)

    folder = Path(os.environ.get("PENSTOCK_CHECKPOINT_DIR") or tempfile.mkdtemp())
    checkpoint, first = folder / "last.pt", 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]

    def save(step: int) -> None:
        partial = checkpoint.with_suffix(".partial")
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, partial)
        partial.rename(checkpoint)

    asked_to_leave = torch.zeros(1)
    signal.signal(signal.SIGTERM, lambda *_: asked_to_leave.fill_(1))

    for step in range(first, args.steps):
        x, y = batch_of(step, args.batch)
        loss = nn.functional.mse_loss(model(x[rank::size]), y[rank::size])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        leaving = asked_to_leave.clone()
        if size > 1:
            dist.all_reduce(leaving)  # the signal reaches workers at different steps; all must leave at the same one
        if rank == 0 and (step % 20 == 0 or step + 1 == args.steps):
            print(f"penstock: step={step + 1} total={args.steps} loss={loss.item():.4f}", flush=True)
        if leaving.item() or step + 1 == args.steps:
            if rank == 0:
                save(step + 1)
            break
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
