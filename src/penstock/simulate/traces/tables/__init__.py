"""Throughput tables: how fast models train on how many devices of which kind, in three published forms."""

from penstock.simulate.traces.tables.profiles import BATCH_COLUMN, ProfileKey, Profiles

__all__ = ["BATCH_COLUMN", "ProfileKey", "Profiles"]
