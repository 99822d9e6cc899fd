"""How the past should have been otherwise: another policy, another cluster, other shares of the tenants."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.core import Cluster, InputError, Node
from penstock.simulate.catalogue import check_policies, refuse_replica

_DEVICES = "+N or -N devices, or N in all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is changed about the past; the rest is as it was. Without a policy those that really ran decide."""

    policy: str = ""
    devices: str = ""
    cluster: str = ""
    shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.policy:
            refuse_replica(self.policy)
            check_policies([self.policy])
        if self.devices and self.cluster:
            raise InputError("devices and a cluster at once", "one of them", f"Leave out --devices {self.devices}")
        if self.devices:
            _parse_devices(self.devices)
        if self.cluster:
            Cluster.parse(self.cluster)

    @property
    def label(self) -> str:
        """How a table names it."""
        parts = [self.policy or "as it ran"]
        if self.devices:
            parts.append(f"{self.devices} devices")
        if self.cluster:
            parts.append(self.cluster)
        parts.extend(f"{name}={share:g}" for name, share in self.shares.items())
        return ", ".join(parts)

    def cluster_from(self, real: Cluster) -> Cluster:
        """The cluster it plays on, where the real one was ``real``."""
        if self.cluster:
            return Cluster.parse(self.cluster)
        return resized(real, self.devices) if self.devices else real


def parse_shares(text: str) -> dict[str, float]:
    """
    >>> parse_shares("vision=2, speech=0.5")
    {'vision': 2.0, 'speech': 0.5}
    """
    shares: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        try:
            share = float(number)
        except ValueError:
            share = 0.0
        if not (equals and name and 0 < share < float("inf")) or name in shares:
            raise InputError(f"{part!r} among the shares", "TENANT=SHARE, a positive number, each once", "Try vision=2")
        shares[name] = share
    return shares


def scenarios_of(
    policies: Sequence[str], *, devices: str = "", cluster: str = "", shares: Mapping[str, float] | None = None
) -> list[Scenario]:
    """One for every policy with all other changes; with changes and no policy, the ones that really ran."""
    names = list(policies) or ([""] if devices or cluster or shares else [])
    if not names:
        raise InputError(
            "nothing that should be otherwise", "a policy, devices, a cluster or shares of tenants",
            "Try --policy fifo or --devices +8",
        )  # fmt: skip
    return [Scenario(policy=name, devices=devices, cluster=cluster, shares=dict(shares or {})) for name in names]


def resized(cluster: Cluster, devices: str) -> Cluster:
    """With more devices, in nodes like most of those that are there, or with fewer, the last ones being gone.

    >>> [node.device_count for node in resized(Cluster.parse("2x8"), "+12").nodes]
    [8, 8, 8, 4]
    >>> [node.device_count for node in resized(Cluster.parse("2x8"), "12").nodes]
    [8, 4]
    """
    change, absolute = _parse_devices(devices)
    present = [node for _, node in cluster.present()]
    count = sum(node.device_count for node in present)
    wanted = change if absolute else count + change
    if wanted < 1:
        raise InputError(f"{devices} of {count} devices", "at least one device is left", f"Try {1 - count}")
    kept: list[Node] = []
    for node in present:
        if (room := wanted - sum(each.device_count for each in kept)) > 0:
            kept.append(replace(node, device_count=min(room, node.device_count)))
    return Cluster((*kept, *_further(present, wanted - sum(node.device_count for node in kept))))


def _further(present: Sequence[Node], count: int) -> list[Node]:
    """So many devices in new nodes that are like most of the others."""
    shapes = Counter((node.kind, node.device_count) for node in present)
    usual = next(node for node in present if (node.kind, node.device_count) == shapes.most_common(1)[0][0])
    names = {node.name for node in present}
    added: list[Node] = []
    while (room := count - sum(node.device_count for node in added)) > 0:
        number = next(n for n in range(len(names) + 1, 2 * len(names) + 3) if f"more-{n}" not in names)
        names.add(f"more-{number}")
        added.append(replace(usual, name=f"more-{number}", device_count=min(room, usual.device_count)))
    return added


def _parse_devices(text: str) -> tuple[int, bool]:
    """The number, and whether it is one in all."""
    try:
        return int(text), text.strip()[0] not in "+-"
    except (ValueError, IndexError):
        raise InputError(f"{text!r} devices", _DEVICES, "Try +8") from None
