"""One of several processes that train one FSDP2 model on one GPU; the last of them computes more when told to.

``python -m tests.gpu.slow_shard RANK SIZE FOLDER``: prints the times of its steps as JSON lines until a file ``stop``
is in the folder, and is slow while ``slow`` is.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from penstock.runtime.watch import step_clock
from tests.gpu.shared_device_exchange import AllGather, ReduceScatter

WIDTH, LAYERS, SAMPLES = 4096, 6, 4096
step_clock.TELL_EVERY_S = 0.5


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, bias=False)
        self.repeats = 1

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        for _ in range(self.repeats):
            features = features + self.linear(features) / self.repeats
        return features


def main(rank: int, size: int, folder: Path) -> None:
    os.environ.setdefault("TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES", "1")
    torch.cuda.set_device(0)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    mesh = init_device_mesh("cuda", (size,))
    layers = [Layer() for _ in range(LAYERS)]
    model = nn.Sequential(*layers).to("cuda", torch.bfloat16)
    for part in (*layers, model):
        fully_shard(part, mesh=mesh)
    for part in layers:
        part.set_custom_all_gather(AllGather())  # type: ignore[operator]
        part.set_custom_reduce_scatter(ReduceScatter())  # type: ignore[operator]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    clock = step_clock.StepClock(torch.device("cuda", 0))
    clock.shard_waits.watch(model)
    batch = torch.randn(SAMPLES, WIDTH, device="cuda", dtype=torch.bfloat16)
    word = torch.zeros(1)
    for number in range(1_000_000):
        slow = rank == size - 1 and (folder / "slow").exists()
        for layer in layers:
            layer.repeats = 3 if slow else 1
        clock.begin(SAMPLES)
        model(batch).square().mean().backward()
        torch.cuda.current_stream().synchronize()
        clock.exchanged(size)
        optimizer.step()
        optimizer.zero_grad()
        if (times := clock.take(number)) is not None:
            print(json.dumps(asdict(times)), flush=True)
        word[0] = float((folder / "stop").exists())
        dist.all_reduce(word)
        if word[0] > 0:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
