"""What operators cost by their work: kernels on a device, attention over split sequences, and whole tables of both."""

from penstock.parallel.operator_costs.fp8 import Fp8Device, fp8_device
from penstock.parallel.operator_costs.profiled_device import ProfiledDevice, device_model
from penstock.parallel.operator_costs.roofline import CALIBRATED, DeviceModel
from penstock.parallel.operator_costs.split_attention import SequenceSplit, attention_comm_s, best_split, splits_of
from penstock.parallel.operator_costs.table_maker import TableMaker

__all__ = [
    "CALIBRATED",
    "DeviceModel",
    "Fp8Device",
    "ProfiledDevice",
    "SequenceSplit",
    "TableMaker",
    "attention_comm_s",
    "best_split",
    "device_model",
    "fp8_device",
    "splits_of",
]
