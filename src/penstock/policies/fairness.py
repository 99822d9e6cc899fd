"""Used over deserved: what long-term fairness is, of tenants and of jobs, and which values count as equal."""

import numpy as np

from penstock.policies.columns import Floats, Ints


def quotient(used: Floats, deserved: Floats) -> Floats:
    """Used over deserved; 1 where nothing is deserved."""
    return np.divide(used, deserved, out=np.ones(len(used)), where=deserved > 0)


def fairness_class(fairness: Floats, classes: int) -> Ints:
    """Classes of equal width on a scale that is symmetric around one for losses and benefits; 0 got nothing at all."""
    log = np.log(np.maximum(fairness, np.finfo(np.float64).tiny))
    scaled = (1.0 - log / np.sqrt(1.0 + log**2)) / 2.0
    return np.where(fairness > 0, classes - np.floor(scaled * classes), 0).astype(np.int64)
