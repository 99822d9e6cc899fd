"""What /metrics tells while jobs come, run, fail and end; read over a real socket."""

import random
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from penstock.control.state.entries import Configured
from penstock.control.state.store import Principal, Role
from penstock.core import Node, Usage
from penstock.wire import OVER, ResumeRequest
from tests.control.build import ADMIN, Platform, platform
from tests.control.serving import Served, leave_one_tenant, serving
from tests.metrics.exposition import Exposition, metrics_token, scrape

BLUE = Principal(id="b", name="bo", role=Role.USER, tenant="blue")


@pytest.fixture
def served(world: Platform) -> Iterator[Served]:
    with serving(world) as running:
        yield running


def look(served: Served) -> Exposition:
    with served.http() as http:
        return scrape(http)


def test_a_fresh_server_tells_who_it_is_and_what_there_is(served: Served) -> None:
    told = look(served)
    assert told.total("penstock_build_info") == 1
    assert told.value("penstock_devices", kind="gpu", state="free") == 4
    assert told.value("penstock_nodes", kind="gpu", state="up") == 1
    assert told.value("penstock_ready") == 1
    assert told.total("process_resident_memory_bytes") > 1e6


def test_a_kept_promise_is_counted_for_its_tenant(served: Served) -> None:
    served.world.submit(BLUE, work=100, within=500)
    served.world.passes(3)
    running = look(served)
    assert running.value("penstock_jobs", state="running", tenant="blue") == 1
    assert running.value("penstock_promises_made_total", tenant="blue") == 1
    assert running.value("penstock_promises_open") == 1
    assert running.total("penstock_devices", state="held") > 0
    assert running.value("penstock_queue_wait_seconds_count") == 1
    served.world.passes(200)
    over = look(served)
    assert over.value("penstock_promises_kept_total", tenant="blue") == 1
    assert over.total("penstock_promises_broken_total") == 0
    assert over.value("penstock_jobs_ended_total", tenant="blue", state="finished") == 1
    assert over.value("penstock_promises_open") == 0


def test_a_refusal_and_a_broken_promise_are_told_apart(served: Served) -> None:
    world = served.world
    world.submit(work=1000, within=10)
    late = world.submit(work=100, within=60)
    world.passes(3)
    while not world.record(late).over:
        for run_id in world.backend.alive():
            world.backend.fail(run_id)
        world.passes(4)
    told = look(served)
    assert told.total("penstock_promises_refused_total") == 1
    assert world.record(late).failures > 0
    assert told.total("penstock_promises_broken_total") == 1
    assert told.value("penstock_run_failures_total", reason="exit") == world.record(late).failures
    assert told.value("penstock_run_restarts_total") == world.record(late).failures - 1


def test_resizes_and_their_pauses(served: Served) -> None:
    world = served.world
    world.submit(work=10_000)
    world.passes(3)
    world.submit(work=100, within=60)
    world.passes(3)
    told = look(served)
    resized = told.value("penstock_resizes_total", in_place="true")
    assert resized >= 1
    assert told.value("penstock_resize_pause_seconds_count") == resized
    assert told.value("penstock_resize_pause_seconds_sum") == pytest.approx(0.1 * resized)


def recounted(world: Platform) -> dict[tuple[str, str], int]:
    """Jobs by state and tenant, looked up one by one."""
    state = world.journal.state
    return Counter((state.phase(record).value, record.job.tenant) for record in world.journal.records())


def test_counting_as_they_change_comes_to_the_same_as_counting_all(served: Served) -> None:
    world, chance = served.world, random.Random(5)
    for _ in range(40):
        what, jobs = chance.random(), [job for job in world.journal.state.jobs if not world.record(job).over]
        if what < 0.4 or not jobs:
            world.submit(
                BLUE if chance.random() < 0.5 else ADMIN,
                work=chance.randint(10, 300),
                within=chance.choice((20, 200, 900)),
            )
        elif what < 0.55:
            world.commands.cancel(chance.choice(jobs), ADMIN)
        elif what < 0.7:
            world.commands.pause(chance.choice(jobs), ADMIN)
        elif what < 0.8:
            paused = [job for job in jobs if world.phase(job) == "paused"]
            if paused:
                world.commands.resume(paused[0], ADMIN, ResumeRequest(best_effort=True))
        elif alive := world.backend.alive():
            world.backend.fail(chance.choice(alive))
        world.passes(chance.randint(1, 15))
        told = look(served)
        shown = {
            (dict(labels)["state"], dict(labels)["tenant"]): int(value)
            for (name, labels), value in told.samples.items()
            if name == "penstock_jobs"
        }
        assert shown == recounted(world)
        active = [world.record(job) for job in world.journal.state.jobs if world.phase(job) not in (*OVER, "paused")]
        waits = [world.clock.time - record.submission.at for record in active if record.started_at is None]
        assert told.value("penstock_queue_oldest_seconds") == pytest.approx(max(waits, default=0.0))
    assert told.total("penstock_jobs_ended_total") == sum(record.over for record in world.journal.records())


def test_requests_are_counted_by_template_and_never_by_path(served: Served) -> None:
    job = served.world.submit(work=100)
    with served.http() as http:
        for _ in range(3):
            assert http.get(f"/v1/jobs/{job}").status_code == 200
        assert http.get("/v1/jobs/j-nobody").status_code == 404
        assert http.get("/nowhere/at/all").status_code == 404
    told = look(served)
    route = "/v1/jobs/{job_id}"
    assert told.value("penstock_http_requests_total", method="GET", route=route, code="200") == 3
    assert told.value("penstock_http_requests_total", method="GET", route=route, code="404") == 1
    assert told.value("penstock_http_requests_total", method="GET", route="other", code="404") == 1
    assert told.value("penstock_http_request_duration_seconds_count", method="GET", route=route) == 4
    assert not any(job in value for _, labels in told.samples for _, value in labels)


def test_the_log_and_the_loop_are_measured(served: Served) -> None:
    before = look(served)
    served.world.submit(work=100)
    served.world.passes(3)
    told = look(served)
    assert told.value("penstock_log_entries_total", kind="Submitted") == 1
    assert told.value("penstock_log_write_duration_seconds_count") >= 1
    assert told.value("penstock_decision_duration_seconds_count") >= 1
    passes = "penstock_reconcile_duration_seconds_count"
    assert told.value(passes) - before.value(passes) == 3
    assert 0 <= told.value("penstock_reconcile_lag_seconds") < 60


def test_counters_begin_at_zero_after_a_restart_and_gauges_do_not(world: Platform) -> None:
    with serving(world) as served:
        world.submit(work=100, within=500)
        world.passes(200)
        assert look(served).total("penstock_promises_kept_total") == 1
    world.restart()
    with serving(world) as served:
        told = look(served)
        assert told.total("penstock_promises_kept_total") == 0
        assert told.value("penstock_jobs", state="finished", tenant="default") == 1


def test_devices_are_read_from_the_runs_that_hold_them(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    world = served.world
    usage = Usage(cpu_percent=50.0, memory_bytes=10, device_percent=80.0, device_memory_bytes=4_000, power_w=800.0)
    monkeypatch.setattr(world.backend, "usage", lambda _: usage)
    job = world.submit(work=10_000, at_least=4)
    world.passes(3)
    served.world.readings.look()
    served.world.readings.look()
    told = look(served)
    held = len(world.record(job).grant.devices)  # type: ignore[union-attr]
    assert told.total("penstock_device_utilisation_ratio") == pytest.approx(0.8 * held)
    assert told.total("penstock_device_power_watts", source="measured") == pytest.approx(800.0)
    assert told.total("penstock_device_memory_used_bytes") == pytest.approx(4_000)
    assert told.total("penstock_device_energy_joules_total") > 0
    world.commands.cancel(job, ADMIN)
    world.passes(2)
    served.world.readings.look()
    gone = look(served)
    assert gone.total("penstock_device_utilisation_ratio") == 0
    assert gone.total("penstock_device_energy_joules_total") == told.total("penstock_device_energy_joules_total")


def test_a_modelled_energy_is_said_to_be_estimated(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter((100.0, 160.0))
    monkeypatch.setattr(
        served.world.backend,
        "usage",
        lambda _: Usage(cpu_percent=50.0, power_w=6.0, energy_j=next(told), estimated=True),
    )
    served.world.submit(work=10_000)
    served.world.passes(3)
    served.world.readings.look()
    served.world.readings.look()
    joules = look(served).total("penstock_device_energy_joules_total", source="estimated")
    assert joules == pytest.approx(60.0), "what was drawn before the first look belongs to another server"


def test_a_run_that_cannot_be_asked_leaves_no_reading(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(_: str) -> Usage:
        raise OSError("gone")

    monkeypatch.setattr(served.world.backend, "usage", unreachable)
    served.world.submit(work=10_000)
    served.world.passes(3)
    served.world.readings.look()
    assert look(served).total("penstock_device_utilisation_ratio") == 0


def test_a_lost_node_is_seen(served: Served) -> None:
    served.world.backend.nodes_there = ()
    served.world.passes(3)
    told = look(served)
    assert told.value("penstock_devices", kind="gpu", state="lost") == 4
    assert told.value("penstock_nodes", kind="gpu", state="lost") == 1
    served.world.backend.nodes_there = (Node(name="node-0", device_count=4),)


def test_tenants_do_not_grow_without_end(served: Served) -> None:
    for number in range(110):
        served.world.metrics.tenant(f"tenant-{number}")
    assert served.world.metrics.tenant("tenant-3") == "tenant-3"
    assert served.world.metrics.tenant("tenant-109") == "other"


def test_names_follow_the_conventions(served: Served) -> None:
    served.world.submit(work=100, within=500)
    served.world.passes(200)
    with served.http() as http:
        text = http.get("/metrics").text
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    ours = {
        name: kind for name, kind in types.items() if name.startswith("penstock_") and not name.endswith("_created")
    }
    assert len(ours) > 20
    for name, kind in ours.items():
        assert re.fullmatch(r"penstock_[a-z][a-z0-9_]*", name)
        assert name.endswith("_total") == (kind == "counter"), name
        assert not re.search(r"_(ms|milliseconds|percent|kb|hours)\b", name), name
        if kind == "histogram":
            assert name.endswith("_seconds"), name


def test_with_a_second_tenant_it_takes_an_admins_token_on_this_machine_too(served: Served) -> None:
    with served.http(None) as nobody, served.http("ada") as user:
        assert nobody.get("/metrics").status_code == 401
        assert user.get("/metrics").status_code == 403
        bearer = {"Authorization": f"Bearer {metrics_token(served)}"}
        assert nobody.get("/metrics", headers=bearer).status_code == 200
        assert nobody.get("/v1/jobs", headers=bearer).status_code == 403, "a token for metrics reads nothing else"
        leave_one_tenant(served)
        assert nobody.get("/metrics").status_code == 200
        served.world.submit(work=100, tenant="red")
        assert nobody.get("/metrics").status_code == 401, "the job of another tenant counts like a token"


def test_from_elsewhere_it_takes_an_admins_token(served: Served) -> None:
    elsewhere = {"X-Forwarded-For": "203.0.113.9"}
    with served.http(None) as nobody, served.http("ada") as user, served.http("admin") as admin:
        assert nobody.get("/metrics", headers=elsewhere).status_code == 401
        assert user.get("/metrics", headers=elsewhere).status_code == 403
        assert admin.get("/metrics", headers=elsewhere).status_code == 200


def test_two_servers_in_one_process_do_not_share_figures(
    served: Served, tmp_path_factory: pytest.TempPathFactory
) -> None:

    served.world.submit(work=100)
    with platform(tmp_path_factory.mktemp("other")) as other, serving(other) as second:
        assert look(second).total("penstock_jobs_submitted_total") == 0
        assert look(served).total("penstock_jobs_submitted_total") == 1


def test_open_metrics_is_spoken_to_those_who_ask_for_it(served: Served) -> None:
    with served.http() as http:
        answer = http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_a_promise_that_is_withdrawn_is_counted(served: Served) -> None:
    world = served.world
    world.submit(work=400, within=4000)
    world.passes(2)
    world.reconciler.begin(Configured(at=0.0, nodes=world.nodes, policy="fifo"))
    told = look(served)
    assert told.total("penstock_promises_withdrawn_total") == 1
    assert told.value("penstock_promises_open") == 0
