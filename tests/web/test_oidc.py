"""Sign-in with OpenID Connect against a real provider: the way there and back, and every way it can be abused."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, expect

from penstock.client import ensure_server
from penstock.control import session_cookie
from penstock.core import InputError
from penstock.web import OidcSettings
from tests.control.serving import end_everything_on, until
from tests.tools import needs
from tests.tools.ports import free_port

pytestmark = pytest.mark.xdist_group("browser")

PEOPLE: dict[str, dict[str, Any]] = {
    "ada@example.org": {"email": "ada@example.org", "groups": ["vision", "staff"], "tenant": "blue"},
    "root@example.org": {"email": "root@example.org", "groups": ["operators"], "tenant": "blue"},
    "stray@example.org": {"email": "stray@example.org", "groups": ["nobody"], "tenant": "blue"},
    "lost@example.org": {"email": "lost@example.org", "groups": ["vision"]},
}


@dataclass(frozen=True)
class Site:
    url: str
    issuer: str
    data: Path

    def browser(self) -> httpx.Client:
        return httpx.Client(trust_env=False, timeout=20.0)

    def begin(self, http: httpx.Client) -> str:
        """Where the provider's form is."""
        answer = http.get(f"{self.url}/ui/oidc/start?next=/ui/jobs")
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    def back(self, http: httpx.Client, form: str, sub: str) -> str:
        """The address a browser is sent back to after somebody has filled the form in."""
        answer = http.post(form, data={"sub": sub})
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    def sign_in(self, http: httpx.Client, sub: str) -> httpx.Response:
        return http.get(self.back(http, self.begin(http), sub))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    needs.names()
    folder = tmp_path_factory.mktemp("oidc")
    port = free_port()
    issuer = f"http://localhost:{port}"
    provider = subprocess.Popen(
        [sys.executable, "-m", "oidc_provider_mock", "--port", str(port)], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: _answers(issuer), "the identity provider")
        for sub, claims in PEOPLE.items():
            httpx.put(f"{issuer}/users/{sub}", json=claims, trust_env=False).raise_for_status()
        (folder / "data").mkdir(mode=0o700)
        (folder / "secret").write_text("a shared secret\n")
        (folder / "data" / "penstock.toml").write_text(
            "slots = 1\naccept_shared_user = true\n"
            f'[oidc]\nissuer = "{issuer}"\nclient_id = "penstock"\nlabel = "Example"\n'
            f'client_secret_file = "{folder / "secret"}"\nrole_claim = "groups"\n'
            '[oidc.roles]\nvision = "user"\nstaff = "viewer"\noperators = "admin"\n'
        )
        with ensure_server(folder / "data") as client:
            yield Site(client.url, issuer, folder / "data")
        end_everything_on(folder / "data")
    finally:
        provider.terminate()
        provider.wait(10)


def _answers(issuer: str) -> bool:
    try:
        return httpx.get(f"{issuer}/.well-known/openid-configuration", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_person_signs_in_with_the_provider_and_out_again(browser: Browser, site: Site) -> None:
    page = browser.new_context().new_page()
    page.goto(f"{site.url}/ui/jobs")
    page.get_by_role("link", name="Sign in with Example").click()
    page.get_by_placeholder("sub").fill("ada@example.org")
    page.get_by_role("button", name="Authorize").click()
    expect(page).to_have_url(f"{site.url}/ui/jobs")
    expect(page.get_by_text("ada@example.org · user · blue")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    page.goto(f"{site.url}/ui/jobs")
    expect(page).to_have_url(re.compile("/ui/sign-in"))
    page.context.close()


def test_claims_become_tenant_and_role_and_the_audit_log_knows(site: Site) -> None:
    with ensure_server(site.data) as admin, site.browser() as http:
        assert site.sign_in(http, "root@example.org").headers["location"] == "/ui/jobs"
        (token,) = [token for token in admin.tokens() if token.name == "root@example.org"]
        assert (token.role, token.tenant, token.origin) == ("admin", "blue", site.issuer)
        assert token.expires_at is not None
        assert admin.audit(limit=1, action="sign in").entries[0].actor == "root@example.org"
        http.post(f"{site.url}/ui/sign-out")
        assert "root@example.org" not in [token.name for token in admin.tokens()]


@pytest.mark.parametrize(("sub", "lacking"), [("stray@example.org", "no role"), ("lost@example.org", "no tenant")])
def test_whoever_has_no_place_here_is_told_so(site: Site, sub: str, lacking: str) -> None:
    with site.browser() as http:
        answer = site.sign_in(http, sub)
        assert answer.status_code == 401
        assert lacking in answer.text
        assert session_cookie(site.url) not in http.cookies


def test_the_request_carries_state_nonce_and_a_challenge(site: Site) -> None:
    with site.browser() as http:
        query = parse_qs(urlsplit(site.begin(http)).query)
    assert query["response_type"] == ["code"]
    assert query["code_challenge_method"] == ["S256"]
    assert {"state", "nonce", "code_challenge"} <= query.keys()
    assert query["redirect_uri"] == [f"{site.url}/ui/oidc/callback"]


def test_a_way_back_works_once_and_in_the_browser_that_went(site: Site) -> None:
    with site.browser() as ada, site.browser() as thief:
        back = site.back(ada, site.begin(ada), "ada@example.org")
        site.begin(thief)
        stolen = thief.get(back)
        assert stolen.status_code == 401
        assert "not begun in this browser" in stolen.text
    with site.browser() as ada:
        back = site.back(ada, site.begin(ada), "ada@example.org")
        assert ada.get(back).status_code == 303
        ada.cookies.clear()
        assert ada.get(back).status_code == 401


def test_a_code_for_another_request_is_worth_nothing(site: Site) -> None:
    """Its verifier is not ours and its nonce is not the one we sent."""
    with site.browser() as ada, site.browser() as eve:
        ours, theirs = site.begin(ada), site.begin(eve)
        code = parse_qs(urlsplit(site.back(eve, theirs, "root@example.org")).query)["code"][0]
        state = parse_qs(urlsplit(ours).query)["state"][0]
        answer = ada.get(f"{site.url}/ui/oidc/callback", params={"code": code, "state": state})
        assert answer.status_code >= 400
        assert session_cookie(site.url) not in ada.cookies


@pytest.mark.parametrize("query", ["", "?state=&code=x", "?state=%C3%BC", "?error=access_denied&state=x"])
def test_a_way_back_that_nobody_went_is_refused(site: Site, query: str) -> None:
    with site.browser() as http:
        assert http.get(f"{site.url}/ui/oidc/callback{query}").status_code == 401


def test_a_provider_that_says_no_is_heard(site: Site) -> None:
    with site.browser() as http:
        answer = http.post(site.begin(http), data={"action": "deny"})
        back = answer.headers["location"]
        assert http.get(back).status_code == 401


BAD: tuple[dict[str, Any], ...] = (
    {}, {"issuer": "https://x.example"}, {"issuer": "http://x.example", "client_id": "p"},
    {"issuer": "https://x.example", "client_id": "p", "roles": {"a": "king"}},
    {"issuer": "https://x.example", "client_id": "p", "color": "red"},
)  # fmt: skip


@pytest.mark.parametrize("table", BAD, ids=str)
def test_settings_that_cannot_work_are_refused(table: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        OidcSettings.of(table)


def test_groups_are_translated_and_the_highest_role_counts() -> None:
    settings = OidcSettings(
        issuer="https://x.example", client_id="p", role_claim="groups", tenant_claim="groups",
        roles={"a": "viewer", "b": "tenant-admin"}, tenants={"b": "blue"}, default_role="user",
    )  # fmt: skip
    assert settings.role_of({"groups": ["a", "b", "admin"]}) == "tenant-admin"
    assert settings.role_of({"groups": "admin"}) == "user"
    assert settings.tenant_of({"groups": ["a", "b"]}) == "blue"
    assert settings.tenant_of({"groups": ["a", 7, None]}) == ""
