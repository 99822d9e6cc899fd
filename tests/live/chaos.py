"""Misfortune: whatever is killed, every job ends once and as it should, and every sample counts once.

A real server on this machine's processor cores runs small elastic and plain jobs while a seeded generator deals blows:
``kill -9`` of the server (also in the middle of a submission), of workers and of an agent, servers and agents that
stand still for a while, a database locked by somebody else, jobs that talk nonsense and submissions without sense, with
submissions, cancels, pauses and resumes in between. Each kind of blow comes equally often whatever the seed; the seed
decides their order, their victims and their timing. What the machine makes of it differs from run to run, so a seed
narrows a failure down but does not always repeat it. Jobs are slow while blows fall and fast afterwards: none is
through before its time, and the end does not take long.

What it means that a sample was used once is defined in ``books.py``. ``python -m tests.live.chaos`` (``make chaos``)
goes on for half an hour, a new server and a new seed in each round, and prints what was survived.
"""

import contextlib
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from penstock.control.reports.period import UNEXPLAINED
from penstock.control.state.platform_state import replay
from penstock.core import InputError
from penstock.core.codec import decode
from penstock.wire import ConflictError
from tests.live.books import Books, check_nothing_ran_twice
from tests.live.site import OVER, Site, until

SCRIPTS = Path(__file__).parent / "scripts"
SLOTS = 4
SAMPLES, BATCH, EPOCHS = 101, 8, 25
BLOWS = Counter(
    kill_worker=5, kill_server=2, kill_server_amid_submission=1, kill_agent=1, freeze_server=1, freeze_agent=1,
    lock_database=1, submit_unruly=1, submit_absurdity=1, submit_plain=2, submit_promised=1, cancel=2,
    pause=2, resume=1,
)  # fmt: skip
DEADLINE = "80s"
LONGEST_LULL_S = 1.2
_SHOWN = 300
ABSURD = (
    {"work": "900_000_000_000 steps", "deadline": "1h"}, {"work": "1 steps", "deadline": "99999999999w"},
    {"work": "999999999999999 steps"}, {"work": "1 steps", "args": ["a\0b"]}, {"work": "1 steps", "devices": 2**70},
)  # fmt: skip


@dataclass(slots=True)
class Plan:
    """A job and what must become of it."""

    id: str
    is_elastic: bool
    outcome: str = "finished"
    is_expendable: bool = False
    is_paused: bool = False
    has_deadline: bool = False


class Chaos:
    """Deals the blows and remembers what they must lead to."""

    blows: ClassVar[Counter[str]] = BLOWS
    epochs: ClassVar[int] = EPOCHS
    expendable_steps: ClassVar[int] = 400
    first_steps: ClassVar[int] = 1
    """What every elastic job has completed when the first blow falls."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site = site
        self.books = site.folder / "books"
        self.plans: dict[str, Plan] = {}
        self.dealt: Counter[str] = Counter()
        self.promises: Counter[str] = Counter()
        self.struck: set[str] = set()
        self._random = random.Random(seed)
        self.books.mkdir()
        (self.books / "slow").touch()

    def begin(self) -> None:
        """Something to aim at: two elastic jobs that train, one that nobody will miss, one that cannot succeed."""
        self.submit_elastic()
        self.submit_elastic()
        self.submit_expendable()
        self.submit_plain(steps=3, code=3)
        until(self._all_elastic_train, "the elastic jobs to train")

    def deal(self) -> None:
        blows = list(self.blows.elements())
        self._random.shuffle(blows)
        for blow in blows:
            time.sleep(self._random.uniform(0.2, LONGEST_LULL_S))
            getattr(self, blow)()
            self.dealt[blow] += 1
            self.site.states()

    def end(self) -> None:
        """No more blows: what is paused goes on, and everything may take its course."""
        for plan in self.plans.values():
            self._resume(plan)
        (self.books / "slow").unlink()
        until(lambda: set(self.site.states().values()) <= OVER, "every job to be over")

    def submit_elastic(self) -> None:
        arguments = [str(number) for number in (SAMPLES, BATCH, self.epochs)]
        steps = self.epochs * -(-SAMPLES // BATCH)
        self._submit("elastic_job", arguments, work=f"{steps} steps", global_batch=BATCH, devices="1..3")

    def submit_plain(self, *, steps: int = 40, code: int = 0, **keys: Any) -> Plan:
        keys |= {"retries": 1} if code else {}
        plan = self._submit("plain_job", [str(steps), str(code)], work=f"{steps} steps", devices=1, **keys)
        plan.outcome = "failed" if code else "finished"
        return plan

    def submit_promised(self) -> None:
        """One with a deadline that may become too short in such times; whoever cannot promise it says so at once."""
        plan = self.submit_plain(best_effort=False, deadline=DEADLINE)
        if self.site.ask(lambda client: client.job(plan.id)).state == "declined":
            plan.outcome = "declined"
        plan.has_deadline = True

    def submit_expendable(self) -> None:
        """One that may be cancelled, and is not through before that can happen."""
        self.submit_plain(steps=self.expendable_steps).is_expendable = True

    def submit_unruly(self) -> None:
        """One whose output and progress file say what cannot be."""
        self._submit("unruly_job", [], work="5 steps", devices=1)

    def submit_absurdity(self) -> None:
        """Refused, or declined; it must not show anywhere else."""
        for keys in ABSURD:
            with contextlib.suppress(InputError):
                self._submit("plain_job", ["1", "0"], **keys).outcome = "declined"
                self.site.states()

    def lock_database(self) -> None:
        """By somebody else, for as long as a writer waits without a word."""
        database = sqlite3.connect(self.site.data / "penstock.db", isolation_level=None, timeout=30.0)
        with contextlib.closing(database):
            database.execute("BEGIN IMMEDIATE")
            time.sleep(self._random.uniform(0.5, 1.5))
            database.execute("ROLLBACK")

    def freeze_server(self) -> None:
        if (pid := self.site.server_pid()) is not None:
            self._freeze(pid)

    def freeze_agent(self) -> None:
        if agents := self.site.agents():
            self._freeze(self._random.choice(agents)[1])

    def _freeze(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self._random.uniform(0.5, 2.5))
            os.kill(pid, signal.SIGCONT)

    def kill_server(self) -> None:
        self.site.kill_server()
        time.sleep(self._random.uniform(0.0, 1.5))
        self.site.start()

    def kill_server_amid_submission(self) -> None:
        killer = threading.Timer(self._random.uniform(0.0, 0.1), self.site.kill_server)
        killer.start()
        try:
            self.submit_expendable()
        finally:
            killer.join()
        self.site.start()

    def kill_worker(self) -> None:
        if workers := self.site.workers():
            chosen = self._random.choice(workers)
            self._kill(chosen.run_id, chosen.pid)

    def kill_agent(self) -> None:
        if agents := self.site.agents():
            self._kill(*self._random.choice(agents))

    def cancel(self) -> None:
        """Of a job that nobody will miss; one that ended before us keeps its outcome."""
        chosen = self._one_of([plan for plan in self._open() if plan.is_expendable])
        if chosen is not None:
            with contextlib.suppress(ConflictError):
                self.site.ask(lambda client: client.cancel(chosen.id))
                chosen.outcome = "cancelled"

    def pause(self) -> None:
        chosen = self._one_of([plan for plan in self._open() if not plan.is_paused])
        if chosen is not None:
            with contextlib.suppress(ConflictError):
                self.site.ask(lambda client: client.pause(chosen.id, anyway=True))
                chosen.is_paused = True

    def resume(self) -> None:
        chosen = self._one_of([plan for plan in self._open() if plan.is_paused])
        if chosen is not None:
            self._resume(chosen)

    def _resume(self, plan: Plan) -> None:
        """A job that did its last step while it was being paused is over, and stays so; one whose deadline cannot be
        kept any more goes on without."""
        if plan.is_paused and plan.outcome != "cancelled":
            try:
                self.site.ask(lambda client: client.resume(plan.id))
            except ConflictError:
                if self.site.states()[plan.id] != "finished":
                    assert plan.has_deadline, f"{plan.id} is paused and cannot be resumed"
                    self.site.ask(lambda client: client.resume(plan.id, best_effort=True))
        plan.is_paused = False

    def _submit(self, script: str, arguments: list[str], **keys: Any) -> Plan:
        """Under a key, so that a submission whose answer was lost can be sent again."""
        name = f"{script.replace('_', '-')}-{len(self.plans)}"
        spec = {
            "name": name, "script": str(SCRIPTS / f"{script}.py"), "args": arguments, "best_effort": True,
            "grace": "10s", "retries": {"max": 50, "backoff": 0.2}, "devices": "1..",
            "environment": {"working_dir": str(self.site.folder), "env": {"CHAOS_BOOKS": str(self.books)}}, **keys,
        }  # fmt: skip
        job_id = self.site.ask(lambda client: client.submit(spec, key=name)).job.id
        plan = self.plans[job_id] = Plan(job_id, is_elastic=script == "elastic_job")
        return plan

    def _open(self) -> list[Plan]:
        states = self.site.states()
        return [plan for plan in self.plans.values() if states[plan.id] not in OVER]

    def _one_of(self, plans: list[Plan]) -> Plan | None:
        return self._random.choice(plans) if plans else None

    def _kill(self, run_id: str, pid: int) -> None:
        self.struck.add(run_id)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _all_elastic_train(self) -> bool:
        elastic = [plan.id for plan in self.plans.values() if plan.is_elastic]
        return all(Books.of(self.books, job).last_step() >= self.first_steps - 1 for job in elastic)


def survive(site: Site, seed: int, kind: type[Chaos] = Chaos) -> Counter[str]:
    """One round, from a start to an end, and what was dealt in it."""
    chaos = kind(site, seed)
    try:
        site.start()
        chaos.begin()
        chaos.deal()
        chaos.end()
        check_outcomes(chaos)
        check_samples(chaos)
        check_deadlines(chaos)
        until(lambda: not site.of_jobs(), "everything but the server to be gone", 60.0)
        chaos.kill_server()
        check_outcomes(chaos)
        site.stop_server()
    except Exception as error:
        error.add_note(f"PENSTOCK_CHAOS_SEED={seed}, after {dict(chaos.dealt)}; jobs: {chaos.plans}")
        for event in site.events():
            error.add_note(f"{event.seq} {event.job_id} {event.kind} {str(event.payload)[:_SHOWN]}")
        raise
    return chaos.dealt + Counter({f"deadline {word}": count for word, count in chaos.promises.items()})


def check_outcomes(chaos: Chaos) -> None:
    """The API, the log and a fresh reading of the log tell the same, and it is what should have happened."""
    states, events = chaos.site.states(), chaos.site.events()
    assert states == {plan.id: plan.outcome for plan in chaos.plans.values()}
    assert set(states.values()) >= {"finished", "failed", "cancelled"}, "the blows hit too little"
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    endings = Counter(event.job_id for event in events if _is_ending(event.kind, event.payload))
    begun = Counter(job_id for job_id, outcome in states.items() if outcome != "declined")
    assert endings == begun, "a job ended more than once, or not at all"
    state = replay(decode(event.payload) for event in events)
    assert {record.id: state.phase(record).value for record in state.jobs.values()} == states


def _is_ending(kind: str, payload: dict[str, Any]) -> bool:
    return kind in ("RunFinished", "Cancelled") or (kind == "RunFailed" and payload["retry_at"] is None)


def check_deadlines(chaos: Chaos) -> None:
    """A promise was kept, or whoever asks why not is told what happened to the job."""
    for plan in chaos.plans.values():
        if not plan.has_deadline:
            continue
        report = chaos.site.ask(lambda client, job=plan.id: client.job_report(job))
        assert report.promise in ("kept", "broken", "refused", "none"), f"{plan.id}: {report.promise}"
        assert report.promise != "broken" or UNEXPLAINED not in report.words[0], f"{plan.id}: {report.words}"
        chaos.promises[report.promise] += 1


def check_samples(chaos: Chaos) -> None:
    check_nothing_ran_twice(chaos.books)
    elastic = [Books.of(chaos.books, plan.id, chaos.struck) for plan in chaos.plans.values() if plan.is_elastic]
    for books in elastic:
        books.check_every_sample_once(samples=SAMPLES, batch=BATCH, epochs=chaos.epochs)
        books.check_one_run_at_a_time()
    assert sum(books.worlds() for books in elastic) > len(elastic), "no world ever changed: the blows hit too little"


def main(minutes: float) -> None:
    """Rounds until the time is over, and the table of what was survived; the first that fails ends it."""
    deadline, rounds, dealt, seed = time.monotonic() + 60 * minutes, 0, Counter[str](), int(time.time())
    while time.monotonic() < deadline:
        with tempfile.TemporaryDirectory() as folder:
            site = Site(Path(folder), SLOTS)
            try:
                dealt += survive(site, seed + rounds)
            finally:
                site.close()
        rounds += 1
        print(f"round {rounds} survived (seed {seed + rounds - 1})", flush=True)
    print(f"\n{rounds} rounds; every job ended once and as it should, every sample counted once\n")
    print(f"{'fault':32} {'survived':>8}")
    for blow, count in sorted(dealt.items()):
        print(f"{blow.replace('_', ' '):32} {count:8}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
