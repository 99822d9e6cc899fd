"""Tells people what became of their jobs, beside everything else.

The journal says which jobs something happened to, which costs it nothing; a thread of its own looks at those jobs, and
at promised ones whose deadline comes near, writes what is to be told to the outbox and hands it over. An address that
does not answer is tried again, later and later and a bounded number of times, and keeps nobody else waiting.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from penstock.control.future.forecasts import Forecasts
from penstock.control.notify.delivery import DeliveryError, deliver
from penstock.control.notify.notices import Notice, notices_of
from penstock.control.notify.outbox import Delivery, Outbox
from penstock.control.notify.settings import NotifyRule, NotifySettings
from penstock.control.state.entries import Decided, Entry, job_of
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.core import InputError, Verdict

_log = logging.getLogger(__name__)
_EVERY_S = 1.0
_AT_ONCE = 4
_LONGEST_WAIT_S = 600.0
_PAGE = 1000

Deliver = Callable[[Notice, Any, NotifySettings], None]


class Notifier:
    """Observes a journal. ``send`` is how something is handed over."""

    def __init__(
        self, journal: Journal, forecasts: Forecasts, settings: NotifySettings, path: Path, send: Deliver = deliver
    ) -> None:
        self._journal = journal
        self._forecasts = forecasts
        self._settings = settings
        self._send = send
        self._outbox = Outbox.read(path)
        self._touched: set[str] = set()
        self._promised: set[str] = set()
        """Jobs whose promise may come to be at risk without anything happening to them."""
        self._under_way: dict[int, tuple[Delivery, Future[None]]] = {}
        self._wake = threading.Event()
        self._has_news = False
        self._catch_up()

    def recorded(self, entries: Sequence[Entry], write_s: float, apply_s: float) -> None:  # noqa: ARG002
        """Called with the journal's lock held: only remembers whom it was about."""
        self._touched.update(_about(entries))
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Until told to stop; what is not handed over by then is kept for the next start."""
        with ThreadPoolExecutor(_AT_ONCE, "notify") as pool:
            while not stop.is_set():
                try:
                    self.step(pool)
                except Exception:
                    _log.exception("notifications: a look failed; trying again")
                self._wake.wait(_EVERY_S)
                self._wake.clear()

    def step(self, pool: ThreadPoolExecutor) -> None:
        """Look at what happened, note what is to be told, and hand over what is due."""
        seq, now = self._journal.seq, self._journal.now()
        touched, self._touched = self._touched, set()
        new = [each for job_id in {*touched, *self._promised} for each in self._look(job_id, now)]
        self._outbox.waiting += new
        if self._settle(now) or self._has_news:
            self._outbox.seq, self._has_news = seq, False
            self._outbox.keep()
        self._hand_over(pool, now)

    def _look(self, job_id: str, now: float) -> list[Delivery]:
        record = self._journal.find(job_id)
        rules = [] if record is None else self._rules(record)
        if record is None or not rules:
            return []
        told = self._outbox.told.setdefault(job_id, set())
        found = list(notices_of(record, self._forecasts.expected_at(job_id), now))
        new = [notice for notice in found if notice.key not in told]
        told.update(notice.key for notice in new)
        self._has_news = self._has_news or bool(new) or record.over
        self._watch(record)
        return [
            Delivery(notice, recipient)
            for notice in new
            for recipient in dict.fromkeys(to for rule in rules if notice.kind in rule.on for to in rule.to)
        ]

    def _watch(self, record: JobRecord) -> None:
        if record.over:
            self._outbox.told.pop(record.id, None)
        is_promised = record.quote is not None and record.quote.verdict is Verdict.PROMISED
        (self._promised.add if is_promised and not record.over else self._promised.discard)(record.id)

    def _rules(self, record: JobRecord) -> list[NotifyRule]:
        rules = [rule for rule in self._settings.rules if rule.applies_to(record.job.tenant)]
        try:
            own = self._settings.job_rule(record.submission.spec)
        except InputError:
            own = None
        return [*rules, own] if own is not None else rules

    def _hand_over(self, pool: ThreadPoolExecutor, now: float) -> None:
        for delivery in self._outbox.waiting:
            if id(delivery) not in self._under_way and delivery.not_before <= now:
                future = pool.submit(self._send, delivery.notice, delivery.recipient, self._settings)
                future.add_done_callback(lambda _: self._wake.set())
                self._under_way[id(delivery)] = (delivery, future)

    def _settle(self, now: float) -> bool:
        """Take off the list what has arrived, and what was tried often enough."""
        done = [(delivery, future) for delivery, future in self._under_way.values() if future.done()]
        for delivery, future in done:
            del self._under_way[id(delivery)]
            delivery.attempts += 1
            error = future.exception()
            if error is None or delivery.attempts >= self._settings.attempts:
                self._outbox.waiting.remove(delivery)
            if error is not None:
                self._failed(delivery, error, now)
        return bool(done)

    def _failed(self, delivery: Delivery, error: BaseException, now: float) -> None:
        wait = min(self._settings.first_wait_s * 2.0 ** (delivery.attempts - 1), _LONGEST_WAIT_S)
        delivery.not_before = now + wait
        said = str(error) if isinstance(error, DeliveryError) else type(error).__name__
        given_up = delivery.attempts >= self._settings.attempts
        _log.log(
            logging.WARNING if given_up else logging.INFO, "%s of %s was not delivered to %s (%s); %s",
            delivery.notice.kind, delivery.notice.job_id, delivery.recipient.shown, said,
            f"given up after {delivery.attempts} attempts" if given_up else f"next try in {wait:g} s",
        )  # fmt: skip

    def _catch_up(self) -> None:
        """What happened while no server was there to tell it; of a first start nothing of the past is told."""
        after = self._outbox.seq
        if after is None:
            self._outbox.seq = self._journal.seq
            self._outbox.keep()
            return
        while lines := self._journal.store.log.page(after=after, limit=_PAGE):
            for line in lines:
                quotes = line.payload.get("decision", {}).get("quotes", ()) if line.kind == "Decided" else ()
                self._touched.update(quote["job_id"] for quote in quotes)
                self._touched.update([line.job_id] if line.job_id else [])
            after = lines[-1].seq
        self._promised.update(self._outbox.told)


def _about(entries: Iterable[Entry]) -> set[str]:
    found = {job_id for entry in entries if (job_id := job_of(entry)) is not None}
    return found | {q.job_id for entry in entries if isinstance(entry, Decided) for q in entry.decision.quotes}
