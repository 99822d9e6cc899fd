"""What holds for all tests: a slow machine is no failure."""

from hypothesis import settings

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
