"""A real Prometheus scrapes a real server with our configuration and rules, and is asked what it knows."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.control.build import Platform
from tests.control.serving import Served, serving, until
from tests.metrics.exposition import metrics_token, scrape
from tests.tools.needs import engine
from tests.tools.ports import free_port

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
SUFFIXES = re.compile(r"_(bucket|sum|count)$")


@pytest.fixture
def served(world: Platform) -> Iterator[Served]:
    with serving(world, requests_per_s=1e6, burst=10**6) as running:
        yield running


@pytest.fixture
def prometheus(served: Served, tmp_path: Path) -> Iterator[httpx.Client]:
    with watching(served.url, tmp_path, metrics_token(served)) as http:
        yield http


@contextmanager
def watching(url: str, folder: Path, token: str = "") -> Iterator[httpx.Client]:
    """Our configuration with another target and token, and a second instead of a quarter of a minute."""
    program = engine("prometheus")
    settings = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings["rule_files"] = [str(hurried(PROMETHEUS / name, folder)) for name in settings["rule_files"]]
    scraped = settings["scrape_configs"][0]
    scraped["static_configs"][0]["targets"] = [url.removeprefix("http://")]
    scraped["authorization"]["credentials_file"] = str(folder / "token")
    (folder / "token").write_text(token)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    port = free_port()
    command = [
        program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=10.0) as http:
            until(lambda: is_ready(http, process, folder / "prometheus.log"), "Prometheus", 60.0)
            yield http
    finally:
        process.terminate()
        process.wait(20)


def hurried(rules: Path, folder: Path) -> Path:
    """The same rules, evaluated every second."""
    content = yaml.safe_load(rules.read_text())
    for group in content["groups"]:
        group["interval"] = "1s"
    target = folder / rules.name
    target.write_text(yaml.safe_dump(content))
    return target


def is_ready(http: httpx.Client, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        return http.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def ask(http: httpx.Client, query: str) -> dict[str, float]:
    """The answer by its labels, written as one text."""
    body = http.get("/api/v1/query", params={"query": query}).json()
    assert body["status"] == "success", body
    return {
        ",".join(f"{name}={value}" for name, value in sorted(one["metric"].items())): float(one["value"][1])
        for one in body["data"]["result"]
    }


def test_prometheus_scrapes_the_server_and_knows_its_jobs(served: Served, prometheus: httpx.Client) -> None:
    served.world.submit(work=100, within=500)
    served.world.submit(work=100_000)
    served.world.passes(3)
    until(lambda: ask(prometheus, 'up{job="penstock"}'), "the first scrape", 60.0)
    assert set(ask(prometheus, 'up{job="penstock"}').values()) == {1.0}
    running = 'sum(penstock_jobs{state="running"})'
    assert until(lambda: ask(prometheus, running), "running jobs", 60.0) == {"": 2.0}
    assert ask(prometheus, "sum(penstock_promises_made_total)") == {"": 1.0}


def test_recording_rules_are_evaluated(served: Served, prometheus: httpx.Client) -> None:
    served.world.submit(work=100_000, at_least=4)
    served.world.passes(3)
    held = until(lambda: ask(prometheus, "penstock:devices_held:ratio"), "a recorded ratio", 90.0)
    assert list(held.values()) == [1.0]


def test_an_alert_is_raised_for_a_server_that_is_gone(world: Platform, tmp_path: Path) -> None:
    with serving(world) as served:
        url = served.url
    with watching(url, tmp_path) as prometheus:

        def alerts() -> Any:
            found = prometheus.get("/api/v1/alerts").json()["data"]["alerts"]
            return [one for one in found if one["labels"]["alertname"] == "PenstockDown"]

        assert until(alerts, "the alert", 60.0)[0]["state"] in ("pending", "firing")


@pytest.mark.parametrize("what", ["rules.yml", "alerts.yml"])
def test_promtool_accepts_the_rules(what: str) -> None:
    checked = subprocess.run(
        [engine("promtool"), "check", "rules", PROMETHEUS / what], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_metric_that_rules_and_dashboard_use_is_exposed(served: Served) -> None:
    with served.http() as http:
        exposed = scrape(http).names
    rules = {name: yaml.safe_load((PROMETHEUS / name).read_text()) for name in ("rules.yml", "alerts.yml")}
    recorded = {rule["record"] for group in rules["rules.yml"]["groups"] for rule in group["rules"]}
    queries = [rule["expr"] for file in rules.values() for group in file["groups"] for rule in group["rules"]]
    dashboard = json.loads((DEPLOY / "grafana" / "penstock.json").read_text())
    queries += [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    used = {name for query in queries for name in re.findall(r"\bpenstock[_:][a-z0-9_:]+", query)}
    assert len(used) > 20
    unknown = {name for name in used if name not in recorded and SUFFIXES.sub("", name) not in exposed}
    assert unknown == set()


def test_everything_exposed_is_on_the_dashboard_or_in_a_rule(served: Served) -> None:
    with served.http() as http:
        exposed = {name for name in scrape(http).names if name.startswith("penstock_")}
    text = "".join(path.read_text() for path in sorted(DEPLOY.rglob("*")) if path.is_file())
    assert {name for name in exposed if name not in text} == set()


def test_everything_exposed_is_documented(served: Served) -> None:
    with served.http() as http:
        exposed = {name for name in scrape(http).names if name.startswith("penstock_")}
    guide = (DEPLOY.parent / "docs" / "metrics.md").read_text()
    assert {name for name in exposed if f"`{name}`" not in guide} == set()


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "penstock.json").read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    assert dashboard["templating"]["list"][0]["name"] == "datasource"
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel.get("targets", []))
