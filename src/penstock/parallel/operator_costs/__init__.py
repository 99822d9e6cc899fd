"""Costs computed from work and datasheets: kernels, collectives, attention over split sequences, whole tables."""

from penstock.parallel.operator_costs.network import Group, MeasuredCollectives, Network
from penstock.parallel.operator_costs.profiled_device import ProfiledDevice, device_model
from penstock.parallel.operator_costs.roofline import DeviceModel
from penstock.parallel.operator_costs.split_attention import SequenceSplit, attention_comm_s, best_split, splits_of
from penstock.parallel.operator_costs.table_maker import TableMaker

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
