"""An entry that cannot be read is set aside and named; the server starts, and everything else is as it was."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text, update

from penstock.control.state.entries import Configured, SaveFailed
from penstock.control.state.journal import Journal
from penstock.control.state.store import Line, Store
from penstock.control.state.store.tables import events
from penstock.core import InputError
from penstock.wire import JobPhase
from tests.control.build import ADMIN, Platform, platform
from tests.control.serving import serving

TREE = {"type": "SaveFailed", "v": 2, "at": 1e6, "run_id": "x.1", "step": "abc", "reason": ""}


def _append(world: Platform, kind: str, payload: dict[str, Any], job_id: str | None = None) -> int:
    """As an earlier version would have written it."""
    return world.journal.store.log.append(Line(at=world.clock.time, kind=kind, payload=payload, job_id=job_id))


def _damage(world: Platform, seq: int, how: str) -> None:
    """Behind everybody's back: with its checksum, or as a bad disk would."""
    with world.journal.store._engine.begin() as connection:
        row = connection.execute(events.select().where(events.c.seq == seq)).one()
        payload = json.dumps(row.payload)
        changed = {
            "not JSON": payload[: len(payload) // 2],
            "not text": b'{"v": 2, "type": "\xff\xfe"',
            "another number": payload.replace("1.0", "3.0", 1),
            "no object": "[1, 2]",
        }[how]
        connection.execute(
            text("UPDATE events SET payload = :payload WHERE seq = :seq"), {"payload": changed, "seq": seq}
        )


def _seq_of(world: Platform, kind: str) -> int:
    return next(line.seq for line in world.journal.store.log.read() if line.kind == kind)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("SaveFailed", {**TREE, "job_id": "x"}),
        ("Unheard", {"v": 2, "type": "Unheard", "at": 1.0}),
        ("RunFailed", {"v": 2, "type": "RunFailed", "at": "soon"}),
        ("RunFinished", {}),
    ],
)
def test_a_bad_value_an_unknown_type_and_an_empty_entry_keep_no_server_from_starting(
    tmp_path: Path, kind: str, payload: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with platform(tmp_path) as world:
        job = world.submit(work=100)
        world.passes(2)
        seq = _append(world, kind, payload, job)
        with caplog.at_level(logging.ERROR):
            world.restart()
        assert f"event {seq}, {kind}, was set aside" in caplog.text
        assert len(world.journal.quarantine) == 1
        assert f"{kind} (event {seq})" in world.platform.health().warnings[0]
        assert world.platform.overview(ADMIN).warnings == world.platform.health().warnings
        assert f"{kind} (event {seq}) was set aside" in str(world.platform.why(job, ADMIN))
        world.restart()
        assert len(world.journal.quarantine) == 1, "it is named once"
        world.passes(40)
        assert world.phase(job) is JobPhase.FINISHED
        world.platform.period_report(ADMIN, since="1h")
        world.platform.job_report(job, ADMIN)
        stored = [line for line in world.journal.store.log.read() if line.seq == seq]
        assert dict(stored[0].payload) == payload, "what was set aside is still there"


def test_everybody_who_looks_is_told(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        _append(world, "SaveFailed", {**TREE, "job_id": "x"})
        world.restart()
        with serving(world) as served, served.http() as client:
            ready = client.get("/readyz")
            assert (ready.status_code, ready.json()["status"]) == (200, "ready")
            assert "1 entry of the log was set aside" in ready.json()["warnings"][0]
            assert "penstock_entries_set_aside 1.0" in client.get("/metrics").text


@pytest.mark.parametrize("how", ["not JSON", "not text", "another number", "no object"])
def test_damage_on_the_disk_is_noticed_and_costs_that_entry_only(tmp_path: Path, how: str) -> None:
    with platform(tmp_path) as world:
        first = world.submit(work=100, at_most=1)
        world.passes(1)
        second = world.submit(work=100, at_most=1)
        world.passes(2)
        _damage(world, _seq_of(world, "Submitted"), how)
        world.restart()
        assert "Submitted (event 2)" in world.journal.warnings[0]
        assert list(world.journal.state.jobs) == [second]
        row = world.journal.store.jobs.find(first)
        assert row is not None
        assert (row.state, row.devices) == ("failed", [])
        assert "cannot be read" in row.reason
        third = world.submit(work=100)
        world.restart()
        world.passes(130)
        assert [world.phase(job) for job in (second, third)] == [JobPhase.FINISHED, JobPhase.FINISHED]
        numbers = [job.number for job in world.platform.jobs(ADMIN).jobs]
        assert len(numbers) == len(set(numbers)) == 3


def test_rules_that_cannot_be_read_are_taken_to_be_those_of_this_start(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        job = world.submit(work=100)
        world.passes(2)
        _damage(world, 1, "not JSON")
        rules = Configured(at=0.0, nodes=world.nodes, policy="deadline")
        with pytest.raises(InputError, match="penstock restore"):
            Journal(world.journal.store, world.clock)
        journal = Journal(world.journal.store, world.clock, stand_in=rules)
        assert list(journal.state.wanted()) == [f"{job}.1"]


def test_entries_without_a_checksum_are_those_of_earlier_versions(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        job = world.submit(work=100)
        with world.journal.store._engine.begin() as connection:
            connection.execute(update(events).values(checksum=None))
        world.restart()
        assert len(world.journal.quarantine) == 0
        assert list(world.journal.state.jobs) == [job]


def test_keys_that_are_numbers_are_no_damage(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/store.db")
    store.log.append(Line(at=0.1 + 0.2, kind="Odd", payload={"deep": {10: 1e300, 9: [None, True, "\u2028é"]}}))
    assert all(line.intact for line in store.log.read())
    store.close()


def test_what_is_written_can_be_read(world: Platform) -> None:
    """The entries of one whole life are intact."""
    job = world.submit(work=100)
    world.passes(2)
    world.journal.record(SaveFailed(at=world.clock.time, job_id=job, run_id=f"{job}.1", step=3, reason="full"))
    world.passes(40)
    assert all(line.checksum and line.intact for line in world.journal.store.log.read())


def test_a_damaged_record_of_a_finished_job_is_told_and_disturbs_nobody_else(world: Platform) -> None:
    job, other = world.submit(work=100), world.submit(work=100)
    world.passes(120)
    assert world.journal.state.jobs == {}
    with world.journal.store._engine.begin() as connection:
        connection.execute(text("UPDATE archive SET record = '{\"id\": 1' WHERE job_id = :job"), {"job": job})
        connection.execute(text("UPDATE jobs SET spec = 'torn' WHERE id = :job"), {"job": job})
    with serving(world) as served, served.http() as http:
        assert {each["id"] for each in http.get("/v1/jobs").json()["jobs"]} == {job, other}
        answer = http.get(f"/v1/jobs/{job}")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert "cannot be read" in answer.json()["message"]
        assert http.get(f"/v1/jobs/{other}").status_code == 200
        assert http.get("/v1/report").json()["jobs"]["finished"] == 2
    assert [record.id for record in world.journal.records()] == [other]
