"""How many generated examples a slow property is tried with: few in every run, many where one searches for new ones."""

from hypothesis import settings

_USUAL = 100


def examples(few: int) -> int:
    """``few``, or as many as the profile says if that is more than usual (``make test-search``)."""
    wanted = settings.default.max_examples if settings.default is not None else _USUAL
    return wanted if wanted > _USUAL else few
