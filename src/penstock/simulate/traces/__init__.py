"""Workloads: read from public traces, written in our own format, or made from a seed; and how they become jobs.

>>> profiles = Profiles.builtin()
>>> records = generate(2, seed=1, profiles=profiles, mean_interval_s=60)
>>> [job.id for job in jobs_of(records, profiles)]
['job-0', 'job-1']
"""

from penstock.simulate.traces.convert import elastic, jobs_of, to_job, with_deadline, with_model
from penstock.simulate.traces.description import Description, describe
from penstock.simulate.traces.detect import read_trace
from penstock.simulate.traces.draws import exponential_draw, uniform_draw
from penstock.simulate.traces.events import EVENTS, TraceEvent, TraceEvents, read_events
from penstock.simulate.traces.formats import FORMATS, HEADERLESS, Format
from penstock.simulate.traces.formats.plain import write_trace, write_trace_csv, write_trace_jsonl
from penstock.simulate.traces.records import Ending, Trace, TraceJob
from penstock.simulate.traces.synthetic import SIZES, gang_sizes, generate, interval_for_load, with_gangs
from penstock.simulate.traces.tables import Profiles

__all__ = [
    "EVENTS",
    "FORMATS",
    "HEADERLESS",
    "SIZES",
    "Description",
    "Ending",
    "Format",
    "Profiles",
    "Trace",
    "TraceEvent",
    "TraceEvents",
    "TraceJob",
    "describe",
    "elastic",
    "exponential_draw",
    "gang_sizes",
    "generate",
    "interval_for_load",
    "jobs_of",
    "read_events",
    "read_trace",
    "to_job",
    "uniform_draw",
    "with_deadline",
    "with_gangs",
    "with_model",
    "write_trace",
    "write_trace_csv",
    "write_trace_jsonl",
]
