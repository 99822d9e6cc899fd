"""What would fit, for a job that ran out of memory.

A prediction of a model counts only widths whose memory suffices, so the widths of a predicted curve are those that
fit. Where nothing was predicted, the limit and the most that was used say what to ask for.
"""

from penstock.control.state.records import JobRecord
from penstock.core import Diagnosis, Scaling, Source, Usage, format_bytes

_GENEROUS = 1.5
_HOST, _DEVICE = "mem.host_oom", "mem.gpu_oom"
_ASK = "`penstock predict SCRIPT` says what fits where its script offers a penstock_model"


def memory_advice(found: Diagnosis, record: JobRecord | None, spent: Usage) -> str:
    """A sentence for a diagnosis that is about memory; empty for any other."""
    if found.category == _HOST:
        return _of_machine(spent)
    return _of_devices(record) if found.category == _DEVICE and record is not None else ""


def _of_machine(spent: Usage) -> str:
    if spent.memory_limit_bytes:
        enough = format_bytes(_GENEROUS * spent.memory_limit_bytes)
        return f"Its limit was {format_bytes(spent.memory_limit_bytes)}: try `limits.memory` of {enough}"
    return f"It held {format_bytes(spent.memory_peak_bytes)} at most" if spent.memory_peak_bytes else ""


def _of_devices(record: JobRecord) -> str:
    scaling = _predicted(record)
    if scaling is None:
        return _ASK
    width = len(record.workers)
    larger = [count for count in scaling.counts if count > width]
    if larger:
        return f"By prediction it fits on {larger[0]} devices: `penstock edit {record.id} --devices {larger[0]}..`"
    return f"By prediction more than {width} devices are not needed, so its global batch has to be smaller"


def _predicted(record: JobRecord) -> Scaling | None:
    kind = record.grant.kind if record.grant is not None else None
    scaling = record.job.curve.scaling(kind) if kind is not None else None
    return scaling if scaling is not None and (scaling.source is Source.PREDICTED or scaling.plans) else None
