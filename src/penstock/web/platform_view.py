"""What the pages show and do, on behalf of one signed-in person.

The only way from a page to the platform. Every method asks first whether the person's token still counts, and goes
through the same functions as the HTTP API, so a right is checked in one place and not once per page. Methods block
(database, locks): pages call them in a thread.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.control import (
    NODE_KINDS,
    JobRecord,
    PlannedTimeline,
    Principal,
    Role,
    Search,
    Services,
    Verdicts,
    admin,
    as_it_was,
    full_load_w,
    job_view,
    past_of,
    plan_timeline,
    replay_past,
)
from penstock.control.api import jobs, platform
from penstock.control.api import logs as joblogs
from penstock.core import InputError
from penstock.learn import CurveStore
from penstock.web.progress_history import Trails
from penstock.web.view_models import (
    TROUBLE_KINDS,
    Band,
    ClusterPicture,
    Draw,
    JobLine,
    JobPicture,
    Named,
    NodePicture,
    Power,
    TenantLine,
    band_of,
    busy_devices,
    marks_of,
    most_telling,
    past_stretches,
    planned_stretches,
    power_of,
    step_function,
    tenant_lines,
)
from penstock.wire import JobDetail, QuoteView, ResumeRequest, UnauthorizedError

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 15.0
"""How old the look ahead may be while nothing happens."""
_HORIZON_SHARE = 0.5
"""The future takes at most this much of the width of the past."""


@dataclass(slots=True)
class Deck:
    """What all pages of one server share."""

    services: Services
    trails: Trails
    data_dir: Path
    curves: CurveStore = field(init=False)
    _ahead: PlannedTimeline | None = None
    _seen_seq: int = -1
    _rest_s: float = 1.0
    _looking: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.curves = CurveStore(self.data_dir / "curves.db")

    def ahead(self) -> PlannedTimeline:
        """The future as it was last looked at. Everyone shares it; looking takes at most a twentieth of one core.

        Nobody waits for a newer look: it is taken meanwhile, and whoever asks next has it.
        """
        known = self._ahead
        if known is None:
            with self._looking:
                return self._ahead or self._look()
        if self._is_old(known) and self._looking.acquire(blocking=False):
            threading.Thread(target=self._look_again, name="look-ahead", daemon=True).start()
        return known

    def _is_old(self, known: PlannedTimeline) -> bool:
        journal = self.services.journal
        age = journal.now() - known.now
        return age >= self._rest_s and (journal.seq != self._seen_seq or age >= _LOOK_EVERY_S)

    def _look_again(self) -> None:
        try:
            self._look()
        except Exception:
            _log.exception("the future could not be looked at; trying again")
        finally:
            self._looking.release()

    def _look(self) -> PlannedTimeline:
        journal, began = self.services.journal, time.thread_time()
        with journal.reading() as state:
            stage, now, self._seen_seq = state.scheduler.twin(), journal.now(), journal.seq
        self._ahead = found = plan_timeline(stage, now)
        self._rest_s = max(0.5, 20.0 * (time.thread_time() - began))
        return found


class Window:
    """What one person sees of one server."""

    def __init__(self, deck: Deck, holder: Principal) -> None:
        self._deck = deck
        self.holder = holder

    @property
    def who(self) -> Principal:
        """The person, if the token still counts; looked up anew each time."""
        found = self._services.journal.store.tokens.find(self.holder.id)
        if found is None:
            raise UnauthorizedError("a token that was revoked", "a valid token", "Sign in again")
        return found

    @property
    def is_admin(self) -> bool:
        return self.holder.role is Role.ADMIN

    @property
    def _services(self) -> Services:
        return self._deck.services

    def seq(self) -> tuple[int, int]:
        """Changes whenever something happened, and when lists show it; costs nothing to ask."""
        return self._services.journal.seq, self._services.journal.published

    def now(self) -> float:
        return self._services.journal.now()

    def trouble(self) -> str:
        return self._services.reconciler.trouble

    def policy(self) -> str:
        settings = self._services.journal.state.settings
        return settings.policy if settings is not None else ""

    # --- the cluster ------------------------------------------------------------------------------------------------

    def cluster(self, span_s: float) -> ClusterPicture:
        """The last ``span_s`` seconds, and what is planned to follow."""
        who, history, ahead = self.who, self._services.journal.store.history, self._deck.ahead()
        now = self.now()
        since = now - span_s
        until = now + min(_HORIZON_SHARE * span_s, max(ahead.until - now, 0.03 * span_s))
        held = history.holdings(since, now)
        bars = [bar for bar in ahead.bars if bar.start < until and bar.end > now]
        with self._services.journal.reading() as state:
            cluster, absent = state.scheduler.cluster, set(state.absent)
            names = {bar.job_id: Named.of(state.jobs[bar.job_id]) for bar in bars if bar.job_id in state.jobs}
        past = [stretch for one in held for stretch in past_stretches(one, who, since, now)]
        stretches, left_out = most_telling([*past, *planned_stretches(bars, names, who, now, until)])
        rows = {one.job_id: one.first for one in stretches}
        return ClusterPicture(
            now=now, since=since, until=until, devices=cluster.device_count,
            down=sum(node.device_count for node in cluster.nodes if node.name in absent),
            nodes=tuple((node.name, cluster.devices_of(i).start) for i, node in enumerate(cluster.nodes)),
            stretches=stretches, left_out=left_out,
            marks=marks_of(history.lines(TROUBLE_KINDS, since=since, tenant=who.sees, limit=200), cluster, rows),
            busy=busy_devices(held, since, now), counts=history.counts(who.sees),
            waiting=step_function(((a, b, 1.0) for a, b in history.waits(since, now)), since, now),
            power=self._power() or power_of(cluster, held, since, now),
        )  # fmt: skip

    def _power(self) -> Power | None:
        """As the backend tells it of the runs there are, where it does."""
        told = [reading for reading in self._services.metrics.meters.readings() if reading.power_w is not None]
        if not told:
            return None
        return Power(
            watts=sum(one.power_w or 0.0 for one in told), joules=sum(one.energy_j for one in told), since=None,
            estimated=any(one.estimated for one in told),
        )  # fmt: skip

    def nodes(self) -> list[NodePicture]:
        """Every node with what it does; of other tenants' jobs only that there are some."""
        who, views = self.who, platform.nodes(self._services, self.who)
        with self._services.journal.reading() as state:
            holders = {
                device: record.number if who.may_see(record.job.tenant) else -1
                for record in state.engaged.values()
                if record.grant is not None
                for device in record.grant.devices
            }
        told = self._services.metrics.meters.readings()
        loads = {one.device: one.utilisation for one in told if one.utilisation is not None and one.run_id}
        return [
            NodePicture(
                view=view, holders=tuple(holders.get(device) for device in view.devices),
                utilisation=_mean([loads.get(device, 0.0) for device in view.devices]) if loads else None,
            )
            for view in views
        ]  # fmt: skip

    def drain(self, node: str) -> None:
        platform.drain(node, self._services, admin(self.who))

    def undrain(self, node: str) -> None:
        platform.undrain(node, self._services, admin(self.who))

    def tenants(self, span_s: float) -> list[TenantLine]:
        """Usage by tenant; a user sees its own."""
        who, history, now = self.who, self._services.journal.store.history, self.now()
        held = [one for one in history.holdings(now - span_s, now) if who.may_see(one.tenant)]
        return tenant_lines(held, history.counts_by_tenant(who.sees), now - span_s, now)

    def all_tenants(self) -> list[str]:
        return sorted(self._services.journal.store.history.counts_by_tenant(self.who.sees))

    # --- jobs -------------------------------------------------------------------------------------------------------

    def jobs(self, wanted: Search) -> tuple[list[JobLine], int]:
        """One page of jobs, and how many there are."""
        who = self.who
        if who.sees is not None and wanted.tenant != who.sees:
            raise InputError(f"the jobs of {wanted.tenant or 'everyone'}", f"those of {who.sees}")
        found = self._services.journal.store.history.search(wanted)
        now = self.now()
        with self._services.journal.reading() as state:
            shares = {
                row.id: _share(state.remaining(state.jobs[row.id], now), state.jobs[row.id]) for row in found.rows
            }
        return [JobLine(view=job_view(row), share=shares[row.id]) for row in found.rows], found.total

    def job(self, job_id: str) -> JobPicture:
        services, who = self._services, self.who
        detail = jobs.show(job_id, services, who)
        story = jobs.why(job_id, services, who)
        record = services.desk.find(job_id, who)
        kind = record.grant.kind if record.grant is not None else record.job.curve.kinds[0]
        fingerprint, scaling = record.submission.recipe.fingerprint, record.job.curve.scaling(kind)
        deadline = record.job.deadline
        return JobPicture(
            now=self.now(), detail=detail, story=story, samples=self._deck.trails.of(job_id),
            band=None if record.over else self._band(record, kind),
            deadline=deadline if math.isfinite(deadline) else None, kind=kind,
            predicted=tuple(zip(scaling.counts, scaling.rates, strict=True)) if scaling else (),
            measured=self._deck.curves.points(fingerprint, kind) if fingerprint else (),
        )  # fmt: skip

    def _band(self, record: JobRecord, kind: str) -> Band | None:
        likely = self._services.desk.forecasts.expected_at(record.id)
        if likely is None:
            return None
        width = record.grant.width if record.grant is not None else record.job.at_least
        spread = self._deck.curves.uncertainty(record.submission.recipe.fingerprint, kind, width)
        return band_of(self.now(), max(likely, self.now()), spread)

    def cancel(self, job_id: str) -> None:
        jobs.cancel(job_id, self._services, self.who)

    def pause(self, job_id: str) -> None:
        jobs.pause(job_id, self._services, self.who)

    def resume(self, job_id: str, *, deadline: str | None = None, best_effort: bool = False) -> None:
        how = ResumeRequest(deadline=deadline, best_effort=best_effort)
        jobs.resume(job_id, self._services, self.who, how)

    def log(self, job_id: str, cursor: str | None, limit: int = 1 << 18) -> tuple[str, str, bool]:
        """Some output, where to go on, and whether that was all."""
        record = self._services.desk.find(job_id, self.who)
        chunk = joblogs.read(self._services, record, None, joblogs.Place.parse(cursor), limit)
        return chunk.data.decode("utf-8", "replace"), str(chunk.next), chunk.complete

    # --- submitting -------------------------------------------------------------------------------------------------

    def quote(self, spec: Mapping[str, Any]) -> QuoteView:
        return jobs.ask(dict(spec), self._services, self.who)

    def quotes(self, spec: Mapping[str, Any], deadlines_s: Sequence[float]) -> list[QuoteView]:
        """The same job with several deadlines, in seconds from now."""
        plain = {key: value for key, value in spec.items() if key not in ("deadline", "goal", "best_effort")}
        return [self.quote(plain | {"deadline": f"{seconds:.0f}s"}) for seconds in deadlines_s]

    def submit(self, spec: Mapping[str, Any]) -> JobDetail:
        who = self.who
        ticket = self._services.desk.submit(spec, who)
        return jobs.show(ticket.job_id, self._services, who)

    def draw(self) -> Draw | None:
        """What one device draws at work: as held ones tell now, else the strongest at full load; none: nobody knows."""
        told = [one for one in self._services.metrics.meters.readings() if one.power_w is not None]
        if told:
            return Draw(_mean([one.power_w or 0.0 for one in told]), any(one.estimated for one in told))
        with self._services.journal.reading() as state:
            full = [watts for node in state.scheduler.cluster.nodes if (watts := full_load_w(node)) is not None]
        return Draw(max(full), True) if full else None

    # --- what if ----------------------------------------------------------------------------------------------------

    def what_if(self, policies: Sequence[str], on_done: Callable[[Verdicts], None]) -> list[Verdicts]:
        """The past under other policies; it takes everybody's jobs, so only admins may."""
        admin(self.who)
        lines = self._services.journal.store.history.lines(NODE_KINDS, limit=100_000)
        with self._services.journal.reading() as state:
            past, real = past_of(state, lines), as_it_was(state)
        on_done(real)
        return [real, *replay_past(past, policies, on_done)]


def _mean(loads: Sequence[float]) -> float:
    return sum(loads) / len(loads)


def _share(remaining: float, record: JobRecord) -> float:
    """How much is done, between 0 and 1."""
    if record.mark is not None and record.mark.value == "finished":
        return 1.0
    if record.over and record.started_at is None:
        return 0.0
    return min(max(1.0 - remaining / record.work, 0.0), 1.0) if not record.over else 0.0
