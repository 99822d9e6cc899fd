"""A small training whose data has a bad batch, which writes down which steps it took and how it ended."""

import argparse
import json
import os
from pathlib import Path

import torch
from torch import nn

import penstock.elastic as elastic

BATCH, STEPS = 8, 60


def write(kind: str, **fields: object) -> None:
    with Path(f"{kind}-{os.environ.get('PENSTOCK_WORKER', 'w0')}").open("a") as file:
        file.write(json.dumps(fields) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bad", type=int, nargs="*", default=[40], help="steps whose batches are bad")
    parser.add_argument("--value", type=float, default=float("nan"), help="what stands in a bad batch")
    parser.add_argument("--loss", default=None)
    parser.add_argument("--save-steps", type=int, default=10)
    parser.add_argument("--strategy", default="ddp")
    args = parser.parse_args()

    torch.manual_seed(7)
    x = torch.randn(BATCH * STEPS, 4)
    y = x.sum(1, keepdim=True)
    for step in args.bad:
        y[step * BATCH : (step + 1) * BATCH] = args.value

    run = elastic.init(checkpoint_steps=args.save_steps, timeout_s=30, watch_loss=args.loss)
    model = run.wrap(nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 1)), strategy=args.strategy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    run.attach(optimizer=optimizer)
    for step in run.steps((x, y), global_batch=BATCH, steps=STEPS, shuffle=False):
        run._keeper.settle()  # so that every checkpoint that is due is made
        with step as (bx, by):
            step.backward(nn.functional.mse_loss(model(bx), by))
            optimizer.step()
            optimizer.zero_grad()
            write("step", step=step.number, samples=step.samples, rank=run.rank)
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    write("end", completed=run.completed, weights=[float(p.detach().sum()) for p in whole])


main()
