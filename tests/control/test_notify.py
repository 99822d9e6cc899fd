"""People are told of promises and ends: again until it arrives, and only where an admin allows it."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock.control.notify.notifier import Notifier
from penstock.control.notify.recipients import Recipient, shown_address
from penstock.control.notify.settings import NotifySettings
from penstock.control.platform.commands import Commands
from penstock.control.platform.redaction import redacted_spec
from penstock.control.state.entries import RunWatched
from penstock.core import InputError
from tests.control.build import ADMIN, Platform, StandInReader
from tests.tools.mail_server import mail_server


@dataclass
class Inbox:
    """What a real web server was sent; it answers with the ``statuses`` one after the other, then with 200."""

    url: str = ""
    got: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    @property
    def events(self) -> list[str]:
        return [document.get("event", "") for _, document in self.got]


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    found = Inbox()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = found.statuses.pop(0) if found.statuses else 200
            if status == 200:
                found.got.append((self.path, json.loads(body)))
            self.send_response(status)
            self.send_header("Location", f"{found.url}/elsewhere")
            self.end_headers()

        def log_message(self, *words: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Teller:
    """A notifier whose looks the test takes; ``again`` is the next start of the server."""

    world: Platform
    settings: NotifySettings
    path: Path
    notifier: Notifier = field(init=False)

    def __post_init__(self) -> None:
        self.again()

    def again(self) -> None:
        self.world.commands = Commands(
            self.world.journal, StandInReader(self.world.files_at), self.world.forecasts, notify=self.settings
        )
        self.notifier = Notifier(self.world.journal, self.world.forecasts, self.settings, self.path)
        self.world.journal.subscribe(self.notifier)

    def until(self, condition: Callable[[], bool]) -> None:
        with ThreadPoolExecutor(4) as pool:
            end = time.monotonic() + 20
            while not condition() or self.notifier._outbox.waiting:
                assert time.monotonic() < end
                self.notifier.step(pool)
                time.sleep(0.005)


@pytest.fixture
def teller(world: Platform, inbox: Inbox, tmp_path: Path) -> Teller:
    rule = {"to": [f"{inbox.url}/hook"]}
    settings = NotifySettings.of({"rules": [rule], "allow": [f"{inbox.url}/jobs/"], "first_wait_s": 0.0, "attempts": 3})
    return Teller(world, settings, tmp_path / "notifications.json")


def test_a_promise_and_an_end_are_told_once(world: Platform, teller: Teller, inbox: Inbox) -> None:
    job = world.submit(work=40, within=1000, name="night")
    teller.until(lambda: inbox.events == ["promised"])
    world.passes(60)
    teller.until(lambda: inbox.events == ["promised", "finished"])
    path, document = inbox.got[0]
    assert (path, document["id"], document["job_id"]) == ("/hook", f"{job}:promised:1001000", job)
    assert document["text"] == f"night ({job}) is promised by 1970-01-12 14:03:20 UTC"
    world.passes(5)
    teller.until(lambda: True)
    assert len(inbox.got) == 2


def test_risk_breach_failure_and_refusal_are_told(world: Platform, teller: Teller, inbox: Inbox) -> None:
    late = world.submit(work=160, within=45, name="late")
    teller.until(lambda: inbox.events == ["promised"])
    world.forecasts._expected[late] = world.clock() + 60.0
    teller.until(lambda: inbox.events[1:] == ["at_risk"])
    assert "may end 15s after its promise" in inbox.got[1][1]["text"]
    world.clock.time += 50.0
    teller.until(lambda: inbox.events[2:] == ["broken"])
    world.commands.cancel(late, ADMIN)
    failing = world.submit(work=400, retries=0)
    world.passes(2)
    world.backend.fail(world.backend.alive()[0])
    world.passes(2)
    world.submit(work=4000, within=10)
    teller.until(lambda: sorted(inbox.events[3:]) == ["declined", "failed"])
    told = {document["event"]: document["text"] for _, document in inbox.got}
    assert told["failed"].startswith(f"job ({failing}) failed: ")
    assert "even alone on the cluster" in told["declined"]


def test_a_checkpoint_that_cannot_be_read_is_told_once(world: Platform, teller: Teller, inbox: Inbox) -> None:
    job = world.submit(work=400, name="night")
    world.passes(2)
    text = "its checkpoint of step 9 cannot be read: state.json differs; it goes on from step 5"
    run = {"at": world.clock(), "job_id": job, "run_id": f"{job}.1", "kind": "checkpoint_unreadable"}
    for said in (text, text, text.replace("step 9", "step 12")):
        world.journal.record(RunWatched(**run, text=said))
        teller.until(lambda: bool(inbox.events))
    teller.until(lambda: len(inbox.events) == 2)
    assert inbox.events == ["unreadable", "unreadable"]
    assert inbox.got[0][1]["text"] == f"night ({job}): {text}"
    assert "step 12" in inbox.got[1][1]["text"]


def test_what_does_not_arrive_is_tried_again_and_given_up_at_last(
    world: Platform, teller: Teller, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    inbox.statuses = [500, 302]
    world.submit(work=40, within=1000)
    teller.until(lambda: inbox.events == ["promised"])
    inbox.statuses = [500] * 3
    with caplog.at_level(logging.INFO):
        world.commands.cancel(world.submit(work=40, within=2000), ADMIN)
        teller.until(lambda: not inbox.statuses)
    assert len(inbox.got) == 1, "a redirect is not followed"
    assert "given up after 3 attempts" in caplog.text
    assert "/hook" not in caplog.text, "addresses are secrets"


def test_what_was_not_told_before_a_crash_is_told_after_it(world: Platform, teller: Teller, inbox: Inbox) -> None:
    job = world.submit(work=40, within=1000)
    teller.until(lambda: inbox.events == ["promised"])
    world.passes(60)
    world.restart()
    teller.again()
    teller.until(lambda: inbox.events == ["promised", "finished"])
    assert inbox.got[1][1]["job_id"] == job
    teller.again()
    teller.until(lambda: True)
    assert len(inbox.got) == 2


def test_a_job_names_whom_to_tell_where_that_is_allowed(world: Platform, teller: Teller, inbox: Inbox) -> None:
    world.submit(work=40, notify={"to": [f"slack:{inbox.url}/jobs/T1/B2"], "on": ["finished"]}, name="mine")
    world.passes(60)
    teller.until(lambda: len(inbox.got) == 2)
    assert sorted(path for path, _ in inbox.got) == ["/hook", "/jobs/T1/B2"]
    [slack] = [document for path, document in inbox.got if path != "/hook"]
    assert set(slack) == {"text"}
    assert slack["text"].startswith("mine (")


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/jobs/x", "http://169.254.169.254/latest", "{url}/other", "{url}/jobs/../other",
        "{url}/jobs/%2e%2e/other", "{url}@evil.example/jobs/", "{url}/jobsx", "mailto:ann@example.org", "file:///etc",
        "slack:mailto:x@y", "http:///jobs/", "{url}/jobs/a b",
    ],
)  # fmt: skip
def test_a_job_names_nobody_else(world: Platform, teller: Teller, inbox: Inbox, address: str) -> None:
    before = world.journal.seq
    with pytest.raises(InputError):
        world.submit(work=40, notify={"to": [address.format(url=inbox.url)]})
    assert world.journal.seq == before


def test_mail_is_sent(world: Platform, tmp_path: Path) -> None:
    with mail_server() as server:
        settings = NotifySettings.of(
            {"smtp": f"smtp://127.0.0.1:{server.port}", "allow": ["@example.org"], "sender": "penstock@example.org"}
        )
        teller = Teller(world, settings, tmp_path / "notifications.json")
        world.submit(work=40, name="night", notify={"to": ["mailto:ann@example.org"], "on": ["finished"]})
        world.passes(60)
        teller.until(lambda: len(server.mails) == 1)
    recipient, text = server.mails[0]
    assert recipient == "ann@example.org"
    assert "Subject: [penstock] night finished" in text


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"rule": []}, "rule"), ({"rules": [{"to": []}]}, "notify without to"),
        ({"rules": [{"to": ["ftp://x"]}]}, "nobody to notify"),
        ({"rules": [{"to": ["mailto:a@b"]}]}, "e-mail without smtp"),
        ({"rules": [{"to": ["https://x/"], "on": ["sometimes"]}]}, "sometimes"), ({"smtp": "http://x"}, "smtp"),
        ({"allow": "https://x"}, "allow"),
    ],
)  # fmt: skip
def test_settings_are_checked(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        NotifySettings.of(table)


def test_addresses_are_shown_without_what_makes_them_usable() -> None:
    assert shown_address("slack:https://hooks.slack.com/services/T/B/secret") == "slack:https://hooks.slack.com/***"
    assert Recipient.parse("mailto:a@b.org").shown == "mailto:a@b.org"
    spec = {"work": 1, "notify": {"to": ["https://user.example/secret"]}}
    assert redacted_spec(spec)["notify"] == {"to": ["https://user.example/***"]}
