"""The live platform: one journal, one loop, one service that the API and the dashboard call.

Opening this door is cheap; a server's own parts (database, web framework) are imported when one starts.
"""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.control.api import create_app
    from penstock.control.api.dependencies import Caller
    from penstock.control.api.limits import Buckets
    from penstock.control.evaluation.checkpoint_links import CheckpointLinks
    from penstock.control.evaluation.drafts import EvaluationDrafts
    from penstock.control.future.forecasts import Forecasts
    from penstock.control.future.past.observing import observe_database
    from penstock.control.future.planned_timeline import PlannedTimeline
    from penstock.control.future.whatif import study_database
    from penstock.control.loop.job_reader import JobReader
    from penstock.control.loop.learning import Learner
    from penstock.control.loop.learning_stores import LearningStores
    from penstock.control.loop.preparation import Predictor, Preparer
    from penstock.control.loop.reconciler import Reconciler
    from penstock.control.loop.run_diagnosis import RunDiagnoser
    from penstock.control.loop.run_figures import RunFigures
    from penstock.control.notify.notifier import Notifier
    from penstock.control.notify.settings import NotifySettings
    from penstock.control.observe.device_readings import DeviceReadings, full_load_w
    from penstock.control.observe.logging_setup import LogFormat, set_up
    from penstock.control.observe.metrics import Metrics
    from penstock.control.platform.access import RIGHTS, Action, may, require
    from penstock.control.platform.commands import Commands
    from penstock.control.platform.credentials import SESSION_LIFETIME_S, Credentials, session_cookie
    from penstock.control.platform.job_files import FilePlaces
    from penstock.control.platform.past_moments import past_moment
    from penstock.control.platform.quotas import Quotas
    from penstock.control.platform.service import Platform
    from penstock.control.platform.tenancy import Tenancy
    from penstock.control.reports.page import kilowatt_hours, report_page, sentences
    from penstock.control.reports.whatif import WHATIF_COLUMNS, whatif_page, whatif_rows, whatif_sentences
    from penstock.control.state.entries import Configured, Recovered, Submitted
    from penstock.control.state.journal import Journal
    from penstock.control.state.records import BROKEN_PROMISE, JobRecord
    from penstock.control.state.secret_files import SecretRepository
    from penstock.control.state.store import (
        LEASE_S,
        BackupSummary,
        DamagedError,
        Holding,
        Line,
        Principal,
        Quota,
        Role,
        Scope,
        Search,
        Store,
        back_up,
        carried_files,
        examined,
        restore,
    )

__all__ = [
    "BROKEN_PROMISE",
    "LEASE_S",
    "RIGHTS",
    "SESSION_LIFETIME_S",
    "WHATIF_COLUMNS",
    "Action",
    "BackupSummary",
    "Buckets",
    "Caller",
    "CheckpointLinks",
    "Commands",
    "Configured",
    "Credentials",
    "DamagedError",
    "DeviceReadings",
    "EvaluationDrafts",
    "FilePlaces",
    "Forecasts",
    "Holding",
    "JobReader",
    "JobRecord",
    "Journal",
    "Learner",
    "LearningStores",
    "Line",
    "LogFormat",
    "Metrics",
    "Notifier",
    "NotifySettings",
    "PlannedTimeline",
    "Platform",
    "Predictor",
    "Preparer",
    "Principal",
    "Quota",
    "Quotas",
    "Reconciler",
    "Recovered",
    "Role",
    "RunDiagnoser",
    "RunFigures",
    "Scope",
    "Search",
    "SecretRepository",
    "Store",
    "Submitted",
    "Tenancy",
    "back_up",
    "carried_files",
    "create_app",
    "examined",
    "full_load_w",
    "kilowatt_hours",
    "may",
    "observe_database",
    "past_moment",
    "report_page",
    "require",
    "restore",
    "sentences",
    "session_cookie",
    "set_up",
    "study_database",
    "whatif_page",
    "whatif_rows",
    "whatif_sentences",
]

__getattr__ = lazy_door(__name__)
