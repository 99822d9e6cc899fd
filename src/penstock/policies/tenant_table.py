"""Whom jobs are accounted to, as every view shows it: shares, quotas, and the fairness of the last day."""

from dataclasses import dataclass

import numpy as np

from penstock.policies.columns import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TenantTable:
    """Whom jobs are accounted to; the column ``tenant`` of the view holds positions in these."""

    names: tuple[str, ...]
    shares: Floats
    quotas: Floats
    """Devices a tenant may hold at once; infinite without a quota."""
    held: Ints
    """Devices its jobs hold now."""
    attained: Floats
    """Device-seconds its jobs have held, those of jobs that are over included."""
    entitled: Floats
    """Devices its share comes to now."""
    used_lately: Floats
    """Device-seconds of the last day that its jobs held, ..."""
    deserved_lately: Floats
    """... that it deserved, ..."""
    entitled_lately: Floats
    """... and that its share came to."""

    @property
    def fairness(self) -> Floats:
        """Long-term fairness: what was used lately over what was deserved; 1 where nothing was."""
        return quotient(self.used_lately, self.deserved_lately)


def quotient(used: Floats, deserved: Floats) -> Floats:
    """Used over deserved; 1 where nothing is deserved."""
    return np.divide(used, deserved, out=np.ones(len(used)), where=deserved > 0)
