"""A CNN that tells circles from squares in generated images, elastic, with micro batches that bound its memory.

python cnn.py
penstock run --work "96 steps" --deadline 5m -- cnn.py --epochs 4
"""

import argparse

import torch
from torch import nn

import penstock.elastic as elastic

SIDE = 24


def shapes(count: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy images (N, 1, SIDE, SIDE) of a circle (0) or a square (1) somewhere, and which it is."""
    draw = torch.Generator().manual_seed(seed)
    label = torch.randint(0, 2, (count,), generator=draw)
    centre = torch.rand(count, 2, 1, 1, generator=draw) * (SIDE - 12) + 6
    radius = torch.rand(count, 1, 1, generator=draw) * 3 + 3
    axis = torch.arange(SIDE, dtype=torch.float32)
    dx, dy = (axis[None, :, None] - centre[:, 0]).abs(), (axis[None, None, :] - centre[:, 1]).abs()
    circle, square = (dx.square() + dy.square()).sqrt() < radius, torch.maximum(dx, dy) < radius * 0.85
    image = torch.where(label.bool()[:, None, None], square, circle).float()
    return (image + 0.3 * torch.randn(image.shape, generator=draw))[:, None], label


def network() -> nn.Module:
    def stage(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*stage(1, 16), *stage(16, 32), *stage(32, 32), nn.Flatten(), nn.Linear(32 * 9, 2))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()

    torch.set_num_threads(1)  # with layers this small more threads cost more than they bring
    run = elastic.init()
    torch.manual_seed(0)
    model = run.wrap(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    run.attach(optimizer=optimizer)

    for step in run.steps(shapes(3000), global_batch=128, epochs=args.epochs, micro_batch=32):
        with step:
            for image, label in step.parts():
                step.backward(nn.functional.cross_entropy(model(image), label))
            optimizer.step()
            optimizer.zero_grad()
            if run.is_main and step.number % 20 == 0:
                print(
                    f"epoch {step.epoch}  step {step.number:3d}  workers {run.size}  loss {step.loss:.4f}", flush=True
                )

    if run.is_main:
        image, label = shapes(1000, seed=2)
        model.eval()
        with torch.no_grad():
            right = (model.module(image.to(run.device)).argmax(1).cpu() == label).float().mean()
        print(f"done after {run.completed} steps, {right:.1%} of new images right")


if __name__ == "__main__":
    main()
