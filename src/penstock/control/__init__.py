"""The live platform: one journal, one loop, one API.

Opening this door is cheap; a server's own parts (database, web framework) are imported when one starts.
"""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.control.api import Services, create_app
    from penstock.control.api.services import Platform, Who, admin
    from penstock.control.future.planned_timeline import PlannedTimeline, plan_timeline
    from penstock.control.future.whatif import NODE_KINDS, Verdicts, as_it_was, past_of, replay_past
    from penstock.control.loop.preparation import LiveIntake
    from penstock.control.loop.reconciler import Reconciler
    from penstock.control.loop.run_figures import RunFigures
    from penstock.control.observe.device_readings import full_load_w
    from penstock.control.observe.logging_setup import LogFormat, set_up
    from penstock.control.platform.presenter import job_view
    from penstock.control.platform.service import Desk
    from penstock.control.reports.page import kilowatt_hours, report_page, sentences
    from penstock.control.state.entries import Configured
    from penstock.control.state.journal import Journal
    from penstock.control.state.records import JobRecord
    from penstock.control.state.store import Holding, Line, Principal, Role, Search, Store, TokenRepository

__all__ = [
    "NODE_KINDS",
    "Configured",
    "Desk",
    "Holding",
    "JobRecord",
    "Journal",
    "Line",
    "LiveIntake",
    "LogFormat",
    "PlannedTimeline",
    "Platform",
    "Principal",
    "Reconciler",
    "Role",
    "RunFigures",
    "Search",
    "Services",
    "Store",
    "TokenRepository",
    "Verdicts",
    "Who",
    "admin",
    "as_it_was",
    "create_app",
    "full_load_w",
    "job_view",
    "kilowatt_hours",
    "past_of",
    "plan_timeline",
    "replay_past",
    "report_page",
    "sentences",
    "set_up",
]

__getattr__ = lazy_door(__name__)
