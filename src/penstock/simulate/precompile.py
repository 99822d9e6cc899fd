"""``python -m penstock.simulate.precompile`` compiles the planning loops ahead of those who would wait for them.

Loops are compiled when they are first called, and kept on the disk. Where several processes start at once (the tests, a
server beside its command line), each of them would compile the same ones. A small simulation under every policy calls
them all, with speeds in doubt, and takes a second or two if nothing is left to be compiled.
"""

from penstock.policies import POLICIES
from penstock.simulate.sweeps import sweep


def precompile() -> None:
    """Compile every loop that a policy calls."""
    sweep(list(POLICIES), "generate:jobs=30,load=1.5", clusters=["2x4"], wrong_by=[0.0, 0.1], doubts=0.1, workers=1)


if __name__ == "__main__":
    precompile()
