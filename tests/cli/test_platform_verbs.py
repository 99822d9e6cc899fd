"""Verbs about the platform: nodes, tokens, reports, overview, settings, and a server that is not there."""

import io
import json
from pathlib import Path

import pytest

from penstock.control.platform.tenant_secrets import TenantSecrets
from penstock.control.state.secret_files import SecretRepository
from tests.cli.conftest import Penstock
from tests.control.build import Platform


def test_nodes_are_listed_drained_and_used_again(world: Platform, penstock: Penstock) -> None:
    assert "node-0" in penstock("nodes").out
    assert penstock("nodes", "drain", "node-0").code == 0
    assert penstock("nodes", "--json").json()[0]["state"] == "drained"
    assert penstock("nodes", "drain", "node-0", "--reason", "its fan is loud").code == 0
    assert "its fan is loud" in penstock("nodes").out
    assert penstock("nodes", "undrain", "node-0").code == 0
    (node,) = penstock("nodes", "--json").json()
    assert (node["state"], node["unusable"]) == ("up", [])
    refused = penstock("nodes", "drain", "node-7")
    assert refused.code == 2
    assert "unknown node 'node-7'. Allowed: node-0. Did you mean 'node-0'?" in refused.err


def test_a_token_is_made_listed_and_revoked(world: Platform, penstock: Penstock) -> None:
    made = penstock("token", "create", "ada", "--tenant", "physics")
    assert world.platform.authenticate(made.out.strip()).tenant == "physics"
    assert "not shown again" in made.err
    ada = next(token for token in penstock("token", "list", "--json").json() if token["tenant"] == "physics")
    assert ada["name"] in penstock("token", "list").out
    assert penstock("token", "revoke", ada["id"]).code == 0
    again = penstock("token", "revoke", ada["id"])
    assert again.code == 2
    assert f"There is no token {ada['id']!r}" in again.err


@pytest.mark.parametrize("words", [("--role", "king"), ("--tenant", "no spaces")])
def test_a_token_that_cannot_exist_is_refused(words: tuple[str, ...], world: Platform, penstock: Penstock) -> None:
    before = len(penstock("token", "list", "--json").json())
    assert penstock("token", "create", "eve", *words).code == 2
    assert len(penstock("token", "list", "--json").json()) == before


@pytest.mark.usefixtures("as_eve")
@pytest.mark.parametrize("words", [("token", "list"), ("token", "create", "x"), ("nodes", "drain", "node-0")])
def test_what_only_an_admin_may_says_so(words: tuple[str, ...], penstock: Penstock) -> None:
    refused = penstock(*words)
    assert refused.code == 2
    assert "This token has the role user, which may not " in refused.err
    assert "Allowed: the role admin" in refused.err


def test_a_token_that_is_not_valid_says_so(
    world: Platform, penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "penstock_made_up")
    refused = penstock("ps")
    assert refused.code == 2
    assert "This token is not valid." in refused.err


def test_a_report_is_printed_written_and_never_replaced_unasked(
    world: Platform, penstock: Penstock, tmp_path: Path
) -> None:
    job = world.submit(name="night-run", work=100, within=1000)
    world.passes(200)
    assert "kept" in penstock("report", "--since", "1h").out
    assert penstock("report", "--since", "1h", "--json").json()["promises"]["kept"] == 1
    assert "night-run" in penstock("report", job).out
    assert penstock("report", "--html", "week.html").code == 0
    assert "100.0% of the promises were kept" in (tmp_path / "week.html").read_text()
    assert "--force" in penstock("report", "--html", "week.html").err
    assert penstock("report", "--html", "week.html", "--force").code == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--since", "yesterday-ish"), "neither a duration nor a date"),
        (("--since", "2100-01-01"), "The period from 2100-01-01T00:00:00"),
        (("--html", "week.txt"), "a file that ends in .html"),
        (("j-some", "--html", "week.html"), "Leave JOB out"),
    ],
)
def test_a_report_that_cannot_be_made_says_why(
    words: tuple[str, ...], expected: str, world: Platform, penstock: Penstock, tmp_path: Path
) -> None:
    refused = penstock("report", *words)
    assert refused.code == 2
    assert expected in refused.err
    assert not list(tmp_path.glob("week.*"))


def test_top_looks_once_where_there_is_no_screen(world: Platform, penstock: Penstock) -> None:
    job = world.submit(name="night-run", work=1e6)
    world.passes(2)
    assert job in penstock("top").out
    assert penstock("top", "--json").json()["held"] == 4
    assert penstock("top", "--every", "0").code == 2


def test_a_server_without_a_dashboard_says_how_to_get_one(world: Platform, penstock: Penstock) -> None:
    refused = penstock("dashboard", "--no-browser")
    assert refused.code == 2
    assert "has no dashboard" in refused.err


def test_config_shows_settings_and_keeps_the_token_to_itself(world: Platform, penstock: Penstock) -> None:
    shown = penstock("config", "--json").json()
    assert shown["PENSTOCK_TOKEN"] == "(set)"
    assert "PENSTOCK_CONFIG" in penstock("config").out
    schema = json.loads(penstock("config", "--schema").out)
    assert "properties" in schema


def test_completion_for_every_shell(penstock: Penstock) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "penstock" in penstock("completion", shell).out
    assert penstock("completion", "csh").code == 2


def test_a_server_that_does_not_answer_says_what_to_start(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SERVER", "http://127.0.0.1:9")
    monkeypatch.setenv("PENSTOCK_TOKEN", "x")
    refused = penstock("ps")
    assert refused.code == 2
    assert "http://127.0.0.1:9 does not answer" in refused.err
    assert "Start one: penstock serve" in refused.err
    monkeypatch.delenv("PENSTOCK_TOKEN")
    assert "PENSTOCK_TOKEN" in penstock("ps").err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--policy", "deadlin"), "Did you mean 'deadline'"),
        (("--slot", "6 parsecs"), "slot = '6 parsecs' in the command line"),
        (("--port", "70000"), "port 70000"),
        (("--host", "0.0.0.0"), "exposed"),
        (("--backend", "lokal"), "Did you mean 'local'"),
        (("--backend", "nowhere:Backend"), "nowhere"),
        (("--log-format", "xml"), "xml"),
        (("--config", "nothing.toml"), "nothing.toml cannot be read"),
        (("--config", "odd.toml"), "Did you mean 'policy'"),
        (("--data-dir", "/dev/null/x"), "cannot be used"),
    ],
)
def test_a_server_that_cannot_be_set_up_does_not_start(
    words: tuple[str, ...], expected: str, penstock: Penstock, tmp_path: Path
) -> None:
    (tmp_path / "odd.toml").write_text('polcy = "edf"\n')
    refused = penstock("serve", *words)
    assert refused.code == 2
    assert expected in refused.err
    assert "Traceback" not in refused.err


def test_a_secret_is_stored_from_standard_input_listed_and_deleted(
    world: Platform, penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = SecretRepository(tmp_path / "secrets")
    monkeypatch.setattr(world.platform, "secrets", TenantSecrets(kept, world.platform.audit))
    monkeypatch.setattr("sys.stdin", io.StringIO("open sesame\n"))
    made = penstock("secrets", "set", "HF_TOKEN")
    assert made.code == 0
    assert "sesame" not in made.out + made.err
    assert kept.values("default", ["HF_TOKEN"]) == {"HF_TOKEN": "open sesame"}
    modes = [
        path.stat().st_mode & 0o777 for path in (tmp_path / "secrets/default", tmp_path / "secrets/default/HF_TOKEN")
    ]
    assert modes == [0o700, 0o600]
    listed = penstock("secrets", "list", "--json")
    assert [secret["name"] for secret in listed.json()] == ["HF_TOKEN"]
    assert "sesame" not in listed.out
    assert "HF_TOKEN" in penstock("secrets", "list").out
    assert penstock("secrets", "delete", "HF_TOKEN").code == 0
    assert "no secret" in penstock("secrets", "delete", "HF_TOKEN").err


def test_a_server_that_keeps_no_secrets_says_so(world: Platform, penstock: Penstock) -> None:
    assert world.platform is not None
    assert "keeps no secrets" in penstock("secrets", "list").err


def test_status_tells_of_the_server_and_its_jobs(world: Platform, penstock: Penstock) -> None:
    world.submit(work=1e6)
    world.passes(2)
    told = penstock("status")
    assert told.code == 0
    assert "devices" in told.out
    assert "1 running" in told.out
    assert penstock("status", "--json").json()["running"] is True


def test_status_starts_no_server_and_stop_needs_none(penstock: Penstock, tmp_path: Path) -> None:
    told = penstock("status")
    assert told.code == 1
    assert "no server runs on" in told.out
    stopped = penstock("stop")
    assert stopped.code == 0
    assert "no server runs on" in stopped.err
    assert not (tmp_path / "data" / "penstock.db").exists()


def test_stop_leaves_servers_elsewhere_alone(world: Platform, penstock: Penstock) -> None:
    refused = penstock("stop")
    assert refused.code == 2
    assert "unset PENSTOCK_SERVER" in refused.err


def test_the_policy_is_shown_and_switched(world: Platform, penstock: Penstock) -> None:
    job = world.submit(work=100, within=200)
    world.passes(2)
    assert "deadline" in penstock("policy").out
    refused = penstock("policy", "set", "themis", "lease_s=600")
    assert refused.code == 2
    assert job in refused.err
    assert "--force" in refused.err
    told = penstock("policy", "set", "themis", "lease_s=600", "--force", "--json")
    assert (told.json()["policy"], told.json()["written"]) == ("themis", "themis:lease_s=600")
    assert "is withdrawn" in told.err
    shown = penstock("policy").out
    assert "chosen by" in shown
    assert shown.startswith("themis:lease_s=600 ")
    assert "  lease_s=600  how long a job may keep what it was given (" in shown
    assert penstock("policy", "set", "fifoo").code == 2


def test_every_change_of_the_platform_prints_what_it_did(world: Platform, penstock: Penstock) -> None:
    said = penstock("tenants", "set", "vision", "--share", "2", "--quota", "3")
    assert said.err == "vision: share 2, quota 3, limit none\n"
    assert penstock("tenants", "remove", "vision").err == "vision is removed\n"
    quota = penstock("quota", "set", "vision", "--jobs", "5").err
    assert quota == "vision: active jobs 5, devices per job no limit, requests per second no limit\n"
    made = penstock("token", "create", "me").err.split()[2]
    assert penstock("token", "revoke", made).err == f"{made} is revoked\n"


def test_a_slot_stays_until_another_is_given(world: Platform, penstock: Penstock) -> None:
    assert "slot 30s" in penstock("policy", "set", "fifo", "--slot", "30s").out
    assert "slot 30s" in penstock("policy", "set", "deadline").out
    assert "slot 0s" in penstock("policy", "set", "deadline", "--slot", "0s").out
