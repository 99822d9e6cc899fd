"""Public simulators rebuilt to replicate published figures, quirks and all.

A replica is no policy: it plays a whole trace in a world of its own and never meets the scheduler, so no live server
can select one. Their names end in ``-artifact``.
"""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.simulate.replicas.names import REPLICAS
    from penstock.simulate.replicas.replay import replay

__all__ = ["REPLICAS", "replay"]

__getattr__ = lazy_door(__name__)
