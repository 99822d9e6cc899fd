"""Chronus (Gao et al., SoCC'21): leases, reservations for jobs with deadlines, spot devices for everybody else.

From the outside in: ``policy`` is the policy, ``reservations`` keeps who has which leases and finds places for more,
``selection`` chooses again when a lease ends, ``spot`` gives away what is left, ``leases`` counts time in leases.
"""

from penstock.policies.published.chronus.policy import Chronus

__all__ = ["Chronus"]
