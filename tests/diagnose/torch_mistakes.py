"""Mistakes that PyTorch refuses, each made for real; what it said goes to a file by the mistake's name."""

import io
import os
import pickle
import socket
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


def missing_keys():
    nn.Linear(2, 2).load_state_dict({"weight": torch.zeros(2, 2)})


def other_shape():
    nn.Linear(2, 2).load_state_dict(nn.Linear(3, 2).state_dict())


def wrapped_keys():
    nn.Linear(2, 2).load_state_dict({f"module.{key}": value for key, value in nn.Linear(2, 2).state_dict().items()})


def optimizer_groups():
    saved = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1).state_dict()
    torch.optim.SGD(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).parameters(), 0.1).load_state_dict(saved)


def unsafe_pickle():
    file = io.BytesIO()
    torch.save({"when": timedelta(1)}, file)
    file.seek(0)
    torch.load(file, weights_only=True)


def cut_checkpoint():
    path = Path(sys.argv[1], "cut.pt")
    torch.save(torch.zeros(300_000), path)
    os.truncate(path, 600_000)
    torch.load(path)


def no_cuda():
    torch.zeros(2).cuda()


def no_nccl():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl")


def nan_backward():
    with torch.autograd.detect_anomaly():
        x = torch.zeros(1, requires_grad=True)
        (torch.sqrt(x) * 0).sum().backward()


def nan_sampling():
    torch.multinomial(torch.tensor([float("nan"), 1.0]), 1)


def nan_norm():
    weight = nn.Parameter(torch.ones(1))
    weight.grad = torch.tensor([float("nan")])
    nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)


def too_much_memory():
    torch.empty(1 << 50)


def no_rank():
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    dist.init_process_group("gloo")


def no_group():
    dist.all_reduce(torch.zeros(1))


def port_taken():
    with socket.create_server(("0.0.0.0", 0)) as taken:
        dist.TCPStore("127.0.0.1", taken.getsockname()[1], 1, True, timeout=timedelta(seconds=2))


def nobody_at_the_store():
    dist.TCPStore("127.0.0.1", free_port(), 2, False, timeout=timedelta(seconds=1))


def missing_rank():
    store = dist.TCPStore("127.0.0.1", 0, 1, True, timeout=timedelta(seconds=1))
    store.wait(["rank_1"], timedelta(seconds=0.2))


def half_overflow():
    torch.zeros(1, dtype=torch.half).masked_fill_(torch.tensor([True]), -1e30)


def meta_weights():
    nn.Linear(2, 2, device="meta").to("cpu")


def wrong_shapes():
    nn.Linear(3, 2)(torch.zeros(4, 5))


def wrong_dtype():
    nn.Linear(3, 2)(torch.zeros(4, 3, dtype=torch.double))


def double_backward():
    loss = nn.Linear(2, 1)(torch.zeros(1, 2)).pow(2).sum()
    loss.backward()
    loss.backward()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def main():
    folder = Path(sys.argv[1])
    for name, mistake in list(globals().items()):
        if callable(mistake) and getattr(mistake, "__module__", "") == "__main__" and name not in ("main", "free_port"):
            try:
                mistake()
            except (RuntimeError, ValueError, AssertionError, pickle.UnpicklingError, NotImplementedError):
                (folder / f"{name}.log").write_text(traceback.format_exc())
            else:
                (folder / f"{name}.log").write_text("nothing failed\n")


main()
