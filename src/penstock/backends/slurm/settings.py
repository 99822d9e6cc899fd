"""How Penstock lives on a Slurm cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.backends.engine_settings import read_settings
from penstock.core import InputError

START_LIMIT_S = 300.0
"""How long a batch job may wait in a partition that is Penstock's own; nobody else can be in its way there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Where jobs go and what they are charged to.

    ``owner``: partition or reservation are Penstock's alone, so a device that it grants is there at once and its
    promises are promises. Otherwise it is a *guest*: starts wait in Slurm's queue, and what it quotes are forecasts.
    ``account`` is charged for all jobs, or one from ``accounts`` by tenant. ``cpus`` is how many cores make a slot on
    nodes without accelerators. ``host`` is an address of this machine that all nodes reach, ``encrypt`` whether what
    workers and agents say to each other is encrypted. ``time`` is the time limit of batch jobs in Slurm's notation;
    without it the partition's own holds.
    """

    partition: str
    account: str = ""
    accounts: Mapping[str, str] = field(default_factory=dict)
    reservation: str = ""
    qos: str = ""
    owner: bool = False
    cpus: int = 1
    host: str = ""
    encrypt: bool = True
    time: str = ""
    commands: str = ""
    """A directory with Slurm's commands, where they are not on the path."""

    def __post_init__(self) -> None:
        if not self.partition or any(mark in self.partition for mark in " ,"):
            raise InputError(
                f"the partition {self.partition!r}", "the name of one partition", "Try: penstock serve --partition P"
            )
        if self.cpus < 1:
            raise InputError(f"slots of {self.cpus} cores", "at least one core")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "SlurmSettings":
        """From a configuration; a name that is none of these is refused."""
        if "partition" not in given:
            raise InputError("the slurm backend without a partition", "one partition", "Try: --partition P")
        return read_settings(cls, given, "slurm")

    def account_of(self, tenant: str) -> str:
        return self.accounts.get(tenant, self.account)

    @property
    def start_limit_s(self) -> float | None:
        return START_LIMIT_S if self.owner else None
