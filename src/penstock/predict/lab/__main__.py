"""``python -m penstock.predict.lab``: the measurements alone, for machines with nothing but PyTorch and NumPy."""

import argparse
import logging
import time
from pathlib import Path

from penstock.predict.kernels.calls import ImageLayout
from penstock.predict.lab.measuring.campaigns import (
    measure_layer_bags,
    measure_network_kernels,
    measure_random_networks,
    measure_zoo,
)
from penstock.predict.lab.measuring.session import MeasuringSession
from penstock.predict.lab.measuring.steady_power import power_by_family
from penstock.predict.lab.networks.uncommon_layers import UNCOMMON_KINDS


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure kernels and iterations on this machine's device.")
    parser.add_argument("--out", type=Path, required=True, help="folder for measured.npz and measured.json")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--suite-minutes", type=float, default=0.0, help="random networks for so long")
    parser.add_argument("--network-minutes", type=float, default=0.0, help="networks of the zoo for at most so long")
    parser.add_argument("--layer-minutes", type=float, default=0.0, help="bags of random layers for so long")
    parser.add_argument("--uncommon-minutes", type=float, default=0.0, help="bags of uncommon layers for so long")
    parser.add_argument("--kernel-minutes", type=float, default=0.0, help="kernels of random networks for so long")
    parser.add_argument("--power", action="store_true", help="energy of single families under steady load")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="how long to watch each random network")
    parser.add_argument("--network-seconds", type=float, default=1.2, help="how long to watch each network of the zoo")
    parser.add_argument("--precisions", default="bf16,tf32")
    parser.add_argument("--layout", default="nchw", choices=["nchw", "nhwc"])
    parser.add_argument("--only", default="", help="comma-separated names of networks")
    parser.add_argument("--turns", type=Path, help="a file several of these share to take turns on one device")
    parser.add_argument("--resume", action="store_true", help="go on from what is in the folder")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(message)s")
    session = MeasuringSession(
        options.out, options.device, resume=options.resume, turns=options.turns, isolated=options.device == "cpu"
    )  # fmt: skip
    if options.power:
        power_by_family(session)
    wanted = set(filter(None, options.only.split(",")))
    if options.network_minutes:
        measure_zoo(
            session, time.monotonic() + 60 * options.network_minutes, seconds=options.network_seconds,
            precisions=options.precisions.split(","), only=lambda name: not wanted or name in wanted,
            layout=ImageLayout(options.layout),
        )  # fmt: skip
    if options.suite_minutes:
        measure_random_networks(
            session, time.monotonic() + 60 * options.suite_minutes, seed=options.seed, seconds=options.seconds
        )
    if options.layer_minutes:
        measure_layer_bags(session, time.monotonic() + 60 * options.layer_minutes, seed=options.seed)
    if options.uncommon_minutes:
        measure_layer_bags(
            session, time.monotonic() + 60 * options.uncommon_minutes, seed=options.seed, kinds=UNCOMMON_KINDS
        )
    if options.kernel_minutes:
        measure_network_kernels(session, time.monotonic() + 60 * options.kernel_minutes, seed=options.seed)
    session.save()


if __name__ == "__main__":
    main()
