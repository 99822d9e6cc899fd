"""``python -m penstock.predict.lab.fitting.repack FOLDER``: a stored profile written anew in the current version.

Nothing is fitted again: the smaller file of a newer version predicts what the older one did, but for the rounding of
leaves (:func:`~penstock.predict.kernels.packing.rounded_leaves`).
"""

import argparse
from pathlib import Path

from penstock.predict.device_profile import DeviceProfile


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a stored device profile anew in the current version.")
    parser.add_argument("folder", type=Path, help="a folder with profile.json and kernels.npz")
    folder = parser.parse_args().folder
    DeviceProfile.load(folder).save(folder)
    print(f"{folder / 'kernels.npz'}: {(folder / 'kernels.npz').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
