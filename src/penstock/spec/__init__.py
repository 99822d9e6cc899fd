"""What does a person want to run? The job file: read, checked, explained, and turned into a job.

>>> night = parse_job({"command": "python train.py", "work": "10_000 steps", "devices": "1..8", "deadline": "6h"})
>>> night.name, night.steps, night.devices.max, night.command_line()
('train', 10000, 8, ('python', 'train.py'))
"""

from penstock.spec.batch_scripts import BatchScript, read_batch_script
from penstock.spec.documents import parse_yaml
from penstock.spec.edits import JobEdit, read_edit
from penstock.spec.evaluate_part import CHECKPOINT_PLACE, EvaluatePart, EvaluationPace
from penstock.spec.evaluation_files import evaluation_spec, steps_between
from penstock.spec.fields import Profiling
from penstock.spec.files import dump_yaml, job, json_schema, load_job_file, parse_job, to_mapping
from penstock.spec.flags import Flags, from_flags, from_mapping_and_flags, later_values
from penstock.spec.model import JobFile
from penstock.spec.parts import CheckpointPart, DevicesPart, GoalPart, RetriesPart
from penstock.spec.quantities import Amount, WorkUnit, read_array, read_deadline
from penstock.spec.stop_clauses import StopClause, WorkDemand, improves_upward
from penstock.spec.surroundings import EnvironmentPart, LimitsPart

__all__ = [
    "CHECKPOINT_PLACE",
    "Amount",
    "BatchScript",
    "CheckpointPart",
    "DevicesPart",
    "EnvironmentPart",
    "EvaluatePart",
    "EvaluationPace",
    "Flags",
    "GoalPart",
    "JobEdit",
    "JobFile",
    "LimitsPart",
    "Profiling",
    "RetriesPart",
    "StopClause",
    "WorkDemand",
    "WorkUnit",
    "dump_yaml",
    "evaluation_spec",
    "from_flags",
    "from_mapping_and_flags",
    "improves_upward",
    "job",
    "json_schema",
    "later_values",
    "load_job_file",
    "parse_job",
    "parse_yaml",
    "read_array",
    "read_batch_script",
    "read_deadline",
    "read_edit",
    "steps_between",
    "to_mapping",
]
