"""Why did it fail, is this node sane? Causes from logs of all ranks, checks of nodes, the first wrong operator."""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.diagnose.apart import Examination, examined, examined_apart
    from penstock.diagnose.doctor import Doctor, LogSource
    from penstock.diagnose.facts import RunFacts, WorkerEnd
    from penstock.diagnose.logs.kernel_log import kernel_lines
    from penstock.diagnose.operators.checking import OperatorReport, check_operators
    from penstock.diagnose.operators.script_check import check_model
    from penstock.diagnose.operators.shrinking import repeating_script, shrunk
    from penstock.diagnose.operators.training_step import TrainingStep
    from penstock.diagnose.preflight.gate import shared_report
    from penstock.diagnose.preflight.job_check import check_for_job
    from penstock.diagnose.preflight.node import NodeCheck
    from penstock.diagnose.preflight.nodes import NodesCheck, NodesReport
    from penstock.diagnose.preflight.pairing import Located, locate
    from penstock.diagnose.preflight.reaching import Reach
    from penstock.diagnose.preflight.report import Check, NodeReport, Status
    from penstock.diagnose.signatures.catalogue import Catalogue, shipped_catalogue
    from penstock.diagnose.signatures.model import Category, Level, Signature
    from penstock.diagnose.signatures.own import add_signature, catalogue_with
    from penstock.diagnose.signatures.trial import Trial, tried
    from penstock.diagnose.sources import log_sources, text_source

__all__ = [
    "Catalogue",
    "Category",
    "Check",
    "Doctor",
    "Examination",
    "Level",
    "Located",
    "LogSource",
    "NodeCheck",
    "NodeReport",
    "NodesCheck",
    "NodesReport",
    "OperatorReport",
    "Reach",
    "RunFacts",
    "Signature",
    "Status",
    "TrainingStep",
    "Trial",
    "WorkerEnd",
    "add_signature",
    "catalogue_with",
    "check_for_job",
    "check_model",
    "check_operators",
    "examined",
    "examined_apart",
    "kernel_lines",
    "locate",
    "log_sources",
    "repeating_script",
    "shared_report",
    "shipped_catalogue",
    "shrunk",
    "text_source",
    "tried",
]

__getattr__ = lazy_door(__name__)
