"""Computed tables beside measured ones: a transformer layer on a V100 against Aceso's public operator profiles.

Prints the error of the forward and the backward pass of one layer, per model size, with the constants the planner uses
and with constants fitted here; the fitted ones are where the planner's come from. Collectives go over a link fitted to
the all-reduces of the same machine.
"""

import sys
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from bench.aceso.profiles import ProfileDatabase
from bench.data import DATA as TRACES
from bench.link_fitting import fitted_link
from penstock.network import NODE_NETWORKS, Fabric
from penstock.parallel.families import decoder_only
from penstock.parallel.operator_costs import DeviceModel, TableMaker
from penstock.predict.hardware import Precision, device_named

DATA = TRACES.parent / "aceso"
SHAPES = {"1_3B": (2048, 32), "2_6B": (2560, 32), "6_7B": (4096, 32), "13B": (5120, 40)}
LAYER = slice(1, 14)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Profile:
    """Seconds of one layer by (pass, micro-batch, tp)."""

    size: str
    micro_batches: tuple[int, ...]
    tp_degrees: tuple[int, ...]
    seconds: Floats
    fabric: Fabric

    def computed(self, device: DeviceModel) -> Floats:
        hidden, heads = SHAPES[self.size]
        family = decoder_only(
            self.size, hidden=hidden, layers=2, heads=heads, vocabulary=51200, tokens=2048, fused_attention=False
        )
        maker = TableMaker(family=family, device=device, fabric=self.fabric, per_node=8)
        tables = maker.tables(self.micro_batches, self.tp_degrees)
        return np.array([tables.fwd_us[LAYER, :, :, 0].sum(axis=0), tables.bwd_us[LAYER, :, :, 0].sum(axis=0)]) / 1e6

    def errors(self, device: DeviceModel) -> Floats:
        found: Floats = self.computed(device) / self.seconds - 1
        return found[~np.isnan(found)]


def read_profiles() -> list[Profile]:
    database = ProfileDatabase(DATA)
    link = fitted_link("V100 of Aceso", database.all_reduces("eurosys"), shares=True)
    fabric = Fabric(inside=link, between=NODE_NETWORKS["nvlink2"])
    profiles = []
    for size in SHAPES:
        tables = database.tables("eurosys", "gpt", size)
        passes = [table[LAYER, :, :, 0].sum(axis=0) for table in (tables.fwd_us, tables.bwd_us)]
        profiles.append(Profile(size, tables.micro_batches, tables.tp_degrees, np.array(passes) / 1e6, fabric))
    return profiles


def fitted(profiles: list[Profile], start: DeviceModel) -> DeviceModel:
    def at(logs: Floats) -> DeviceModel:
        compute, memory, launch, collectives = (float(value) for value in np.exp(logs))
        return replace(
            start, compute_share=compute, memory_share=memory, launch_s=launch, collective_slowdown=collectives
        )

    def residuals(logs: Floats) -> Floats:
        return np.concatenate([np.log1p(profile.errors(at(logs))) for profile in profiles])

    bounds = np.log([0.1, 0.1, 1e-7, 1.0]), np.log([0.95, 1.0, 1e-3, 5.0])
    found = least_squares(residuals, np.log([0.6, 0.7, 2e-5, 1.2]), bounds=bounds, loss="soft_l1", f_scale=0.1)
    return at(found.x)


def main() -> None:
    if not DATA.is_dir():
        print(f"skipped: Aceso's profiles are not at {DATA.parent.name}/{DATA.name} beside the repository")
        sys.exit(0)
    profiles = read_profiles()
    shipped = DeviceModel.of(device_named("v100"), Precision.FP16)
    fresh = fitted(profiles, shipped)
    print(f"{'':<10}{'compute':>10}{'memory':>10}{'launch us':>11}{'collectives':>13}")
    for name, device in (("shipped", shipped), ("fitted", fresh)):
        print(
            f"{name:<10}{device.compute_share:>10.3f}{device.memory_share:>10.3f}{1e6 * device.launch_s:>11.1f}"
            f"{device.collective_slowdown:>13.2f}"
        )
    print(f"\n{'error in %':<12}{'points':>7}{'mean':>8}{'median':>8}{'largest':>9}")
    for profile in profiles:
        print(row(f"gpt {profile.size}", np.abs(profile.errors(shipped))))
    print(row("all", np.abs(np.concatenate([profile.errors(shipped) for profile in profiles]))))


def row(name: str, size: Floats) -> str:
    mean, median, largest = 100 * size.mean(), 100 * np.median(size), 100 * size.max()
    return f"{name:<12}{len(size):>7}{mean:>8.1f}{median:>8.1f}{largest:>9.1f}"


if __name__ == "__main__":
    main()
