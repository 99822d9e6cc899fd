"""Costs computed from work and datasheets: kernels, collectives, attention over split sequences, whole tables."""

from penstock.parallel.analytic.device import DeviceModel
from penstock.parallel.analytic.network import Group, MeasuredCollectives, Network
from penstock.parallel.analytic.profiled import ProfiledDevice, device_model
from penstock.parallel.analytic.sequence import SequenceSplit, attention_comm_s, best_split, splits_of
from penstock.parallel.analytic.tables import TableMaker

__all__ = [
    "DeviceModel",
    "Group",
    "MeasuredCollectives",
    "Network",
    "ProfiledDevice",
    "SequenceSplit",
    "TableMaker",
    "attention_comm_s",
    "best_split",
    "device_model",
    "splits_of",
]
