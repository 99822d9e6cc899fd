"""What a policy of your own must do, as tests to inherit: random clusters, jobs and misfortunes in a checked world.

::

    from penstock.scheduler.testing import PolicyConformance

    class TestMine(PolicyConformance):
        def make(self):
            return MyPolicy()
"""

try:
    import hypothesis  # noqa: F401
except ImportError as problem:
    raise ImportError("the conformance suite needs hypothesis: pip install hypothesis pytest") from problem

from penstock.scheduler.testing.conformance import PolicyConformance
from penstock.scheduler.testing.strategies import clusters, curves, jobs, scripts
from penstock.scheduler.testing.world import CheckedWorld

__all__ = ["CheckedWorld", "PolicyConformance", "clusters", "curves", "jobs", "scripts"]
