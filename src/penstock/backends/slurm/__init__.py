"""Jobs on a cluster that Slurm runs: one batch job for each worker of a run, so that runs grow and shrink one by one.

Penstock decides who gets which device; Slurm starts, isolates, watches and ends the processes. Only commands that every
Slurm installation has are used (``sbatch``, ``squeue``, ``scancel``, ``scontrol``), in their stable text formats.
"""

from penstock.backends.slurm.backend import SlurmBackend
from penstock.backends.slurm.settings import SlurmSettings

__all__ = ["SlurmBackend", "SlurmSettings"]
