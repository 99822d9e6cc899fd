"""Why did it fail? One cause and one remedy, from the logs of all ranks and what the platform knows besides."""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.diagnose.doctor import Doctor, LogSource
    from penstock.diagnose.facts import RunFacts, WorkerEnd
    from penstock.diagnose.logs.kernel_log import kernel_lines
    from penstock.diagnose.signatures.catalogue import Catalogue, shipped_catalogue
    from penstock.diagnose.signatures.model import Category, Level, Signature
    from penstock.diagnose.signatures.own import add_signature, catalogue_with
    from penstock.diagnose.signatures.trial import Trial, tried
    from penstock.diagnose.sources import log_sources, text_source

__all__ = [
    "Catalogue",
    "Category",
    "Doctor",
    "Level",
    "LogSource",
    "RunFacts",
    "Signature",
    "Trial",
    "WorkerEnd",
    "add_signature",
    "catalogue_with",
    "kernel_lines",
    "log_sources",
    "shipped_catalogue",
    "text_source",
    "tried",
]

__getattr__ = lazy_door(__name__)
