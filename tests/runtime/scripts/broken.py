"""A script with a mistake in its loop."""

import torch

import penstock.elastic as elastic

run = elastic.init()
model = run.wrap(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run.attach(optimizer=optimizer)
for step in run.steps((torch.randn(8, 4),), global_batch=4, steps=3):
    with step as (x,):
        step.backward(model(x).mean())
        optimizer.step()
