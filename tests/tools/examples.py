"""How many generated examples a slow property is tried with: few on the way, more in continuous integration, many where
one searches for new ones.
"""

import os

from hypothesis import settings

_USUAL = 100


def examples(few: int, more: int | None = None) -> int:
    """``few``; ``more`` where ``PENSTOCK_MORE_EXAMPLES`` is set, as ``.ci/run`` does; as many as the profile says
    if that is more than usual (``make test-search``).
    """
    wanted = settings.default.max_examples if settings.default is not None else _USUAL
    if wanted > _USUAL:
        return wanted
    return more if more is not None and os.environ.get("PENSTOCK_MORE_EXAMPLES") else few
