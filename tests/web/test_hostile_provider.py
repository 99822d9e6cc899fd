"""An identity provider that lies, redirects or never comes to an end signs nobody in, and holds nobody up."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from penstock.control.state.store import Role
from penstock.web import OidcSettings, oidc
from penstock.web.oidc import BegunSignIns, IdentityProvider, vouched_for
from penstock.wire import RequestError, UnauthorizedError, UnavailableError
from tests.control.build import Platform
from tests.tools import needs

joserfc = pytest.importorskip("joserfc", reason=needs.reason("joserfc is not installed", needs.PACKAGES))
from joserfc import jwt  # noqa: E402
from joserfc.jwk import OctKey, OKPKey  # noqa: E402

KEY, OTHER = OKPKey.generate_key("Ed25519"), OKPKey.generate_key("Ed25519")
Change = Callable[["Provider"], None]


class Provider:
    """One that answers what a test says."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                answer = provider.answers[self.path]
                if callable(answer):
                    answer(self)
                    return
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.answers["/.well-known/openid-configuration"] = {
            "issuer": self.url, "jwks_uri": f"{self.url}/keys", "token_endpoint": f"{self.url}/token",
            "authorization_endpoint": f"{self.url}/form",
        }  # fmt: skip
        self.answers["/keys"] = {"keys": [KEY.as_dict(private=False, kid="k", alg="Ed25519", use="sig")]}
        self.begun = BegunSignIns().begin("/ui/", "http://localhost/ui/oidc/callback")[1]
        self.settings = OidcSettings(issuer=self.url, client_id="penstock", tenants={}, default_role="user")

    @property
    def document(self) -> Any:
        return self.answers["/.well-known/openid-configuration"]

    def says(self, key: Any = KEY, alg: str = "Ed25519", **claims: Any) -> None:
        """What the ID token says; a claim that is None is left out."""
        said = {
            "iss": self.url, "aud": "penstock", "sub": "ada", "email": "ada@example.org", "tenant": "blue",
            "exp": int(time.time()) + 300, "iat": int(time.time()), "nonce": self.begun.nonce, **claims,
        }  # fmt: skip
        kept = {name: value for name, value in said.items() if value is not None}
        token = jwt.encode({"alg": alg, "kid": "k"}, kept, key, algorithms=[alg])
        self.answers["/token"] = {"id_token": token}

    def claims(self) -> Any:
        return IdentityProvider(self.settings).claims("code", self.begun)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with _provider() as serving:
        yield serving


@contextmanager
def _provider() -> Iterator[Provider]:
    provider = Provider()
    thread = threading.Thread(target=provider.server.serve_forever)
    thread.start()
    try:
        yield provider
    finally:
        provider.server.shutdown()
        provider.server.server_close()
        thread.join()


def test_an_honest_one_is_believed(provider: Provider) -> None:
    provider.says()
    assert provider.claims()["email"] == "ada@example.org"


def _unsigned(provider: Provider) -> None:
    provider.says()
    head, body, _ = provider.answers["/token"]["id_token"].split(".")
    provider.answers["/token"] = {"id_token": f"eyJhbGciOiJub25lIn0.{body}."}
    assert head


def _published_key_as_a_secret(provider: Provider) -> None:
    provider.says(OctKey.import_key(str(KEY.as_dict(private=False)["x"])), "HS256")


LIES: dict[str, Change] = {
    "issuer": lambda provider: provider.says(iss="https://other.example"),
    "audience": lambda provider: provider.says(aud="another-client"),
    "audiences": lambda provider: provider.says(aud=["another-client", "third"]),
    "expired": lambda provider: provider.says(exp=int(time.time()) - 3600),
    "no end": lambda provider: provider.says(exp=None),
    "an end that is none": lambda provider: provider.says(exp="tomorrow"),
    "nonce": lambda provider: provider.says(nonce="of an earlier sign-in"),
    "no nonce": lambda provider: provider.says(nonce=None),
    "nobody": lambda provider: provider.says(sub=None),
    "another key": lambda provider: provider.says(OTHER),
    "no signature": _unsigned,
    "a public key as a secret": _published_key_as_a_secret,
    "no token": lambda provider: provider.answers.update({"/token": {"id_token": None}}),
    "a list": lambda provider: provider.answers.update({"/token": [1, 2]}),
    "a huge token": lambda provider: provider.says(more="x" * (3 << 20)),
    "depth": lambda provider: provider.answers.update({"/token": _written(b"[" * 200_000)}),
}


def _written(body: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_signs_nobody_in(provider: Provider, lie: str) -> None:
    LIES[lie](provider)
    with pytest.raises((UnauthorizedError, UnavailableError)) as refused:
        provider.claims()
    assert len(str(refused.value)) < 1000


def test_keys_that_are_none_sign_nobody_in(provider: Provider) -> None:
    provider.says()
    for keys in ({}, {"keys": "x"}, {"keys": [{"kty": "nonsense"}]}, {"keys": []}):
        provider.answers["/keys"] = keys
        with pytest.raises((UnauthorizedError, UnavailableError)):
            provider.claims()


@pytest.mark.parametrize("name", ["token_endpoint", "jwks_uri"])
def test_no_address_leads_elsewhere(provider: Provider, tmp_path: Path, name: str) -> None:
    """Neither by itself nor by a redirect: a file of this machine, a service of its network."""
    provider.says()
    (tmp_path / "keys").write_text(json.dumps(provider.answers["/keys"]))
    provider.answers["/inside"] = provider.answers["/keys"] | provider.answers["/token"]

    def away(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", f"{provider.url}/inside")
        handler.end_headers()

    provider.answers["/away"] = away
    for address in (f"file://{tmp_path}/keys", f"{provider.url}/away", "", None, 7):
        provider.document[name] = address
        with pytest.raises(UnavailableError):
            provider.claims()
    assert "/inside" not in provider.asked


def test_an_answer_without_an_end_is_given_up(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "_ANSWER_WITHIN_S", 0.5)
    ended = threading.Event()

    def drips(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not ended.wait(0.1):
                handler.wfile.write(b" ")
                handler.wfile.flush()
        except OSError:
            pass

    provider.answers["/token"] = drips
    try:
        with pytest.raises(UnavailableError, match="did not answer"):
            provider.claims()
    finally:
        ended.set()


@pytest.mark.parametrize("email", ["x" * 50_000, "\0\x1b[2J\x85", {"a": 1}, ["a"], 7])
def test_names_are_short_and_can_be_kept(world: Platform, provider: Provider, email: Any) -> None:
    provider.says(email=email)
    who = _vouched(world, provider)
    assert who.role is Role.USER
    assert len(who.name) <= 120
    assert who.name.isprintable()


@pytest.mark.parametrize("tenant", ["../up", "x" * 100, "a b", 7, None, ["a b"], {"a": 1}])
def test_tenants_that_are_none_are_refused(world: Platform, provider: Provider, tenant: Any) -> None:
    provider.says(tenant=tenant, email="x" * 50_000)
    with pytest.raises(RequestError) as refused:
        _vouched(world, provider)
    assert len(str(refused.value)) < 1000


def _vouched(world: Platform, provider: Provider) -> Any:
    request = Request({"type": "http", "query_string": b"code=c", "headers": []})
    return vouched_for(IdentityProvider(provider.settings), world.platform.credentials, request, provider.begun)
