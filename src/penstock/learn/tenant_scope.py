"""Whose lessons are whose: what one tenant's runs teach is believed of that tenant's jobs and of nobody else's.

A fingerprint is made of what a job file says and of the files it names. Behind equal ones may be other behaviour, on
purpose too: a run that fakes its speed would change the answers that others get. So what is learned is kept under a
fingerprint with the tenant in front.
"""

import hashlib

_SEPARATOR = "-"
_DIGITS = 12


def scoped_fingerprint(fingerprint: str, tenant: str) -> str:
    """The fingerprint of a tenant's jobs; one that nobody knows stays empty."""
    return f"{scope_of_tenant(tenant)}{fingerprint}" if fingerprint else ""


def scope_of_tenant(tenant: str) -> str:
    """What the fingerprints of a tenant's jobs begin with, and those of no other tenant."""
    return hashlib.sha256(tenant.encode()).hexdigest()[:_DIGITS] + _SEPARATOR


def scope_of(fingerprint: str) -> str:
    """What a fingerprint shares with others of its tenant; nothing for one without a tenant."""
    scope, separator, _ = fingerprint.partition(_SEPARATOR)
    return scope + separator if separator else ""
