"""Sign-in with OpenID Connect: the authorization code flow with PKCE, state and nonce.

The provider shows its own form; we get a code over the browser and an ID token over a connection of our own. What the
token says is believed once its signature, issuer, audience, time and nonce have been checked.
"""

import base64
import hashlib
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
)
from urllib.request import Request as HttpRequest

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from penstock.control import Credentials, Principal, Role
from penstock.core import TENANT_NAME, clean_text
from penstock.core import require as require_package
from penstock.web.oidc_settings import OidcSettings
from penstock.web.session import address_of, entered, inside, sign_in_form
from penstock.web.urls import ROOT
from penstock.wire import RequestError, UnauthorizedError, UnavailableError

START = f"{ROOT}/oidc/start"
CALLBACK = f"{ROOT}/oidc/callback"
_COOKIE = "penstock_oidc"
_WITHIN_S = 600.0
_MOST_BEGUN = 1000
_MOST_BYTES = 1 << 20
_ANSWER_WITHIN_S = 10.0
_LEEWAY_S = 60
_SHOWN = 200
_LONGEST_NAME = 120
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
"""What an ID token may be signed with: keys that only the provider has, never a shared secret and never nothing."""


@dataclass(frozen=True, slots=True)
class BegunSignIn:
    """Somebody who was sent to the provider and has not come back yet."""

    nonce: str
    verifier: str
    target: str
    redirect_uri: str
    ends_at: float


class BegunSignIns:
    """Those under way, by their state; each is taken once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: dict[str, BegunSignIn] = {}
        self._lock = threading.Lock()

    def begin(self, target: str, redirect_uri: str) -> tuple[str, BegunSignIn]:
        begun = BegunSignIn(
            secrets.token_urlsafe(32), secrets.token_urlsafe(48), target, redirect_uri, self._clock() + _WITHIN_S
        )
        state = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._begun) >= _MOST_BEGUN:
                self._begun.pop(next(iter(self._begun)))
            self._begun[state] = begun
        return state, begun

    def take(self, state: str) -> BegunSignIn | None:
        with self._lock:
            begun = self._begun.pop(state, None)
        return begun if begun is not None and begun.ends_at > self._clock() else None


class IdentityProvider:
    """One provider, as its discovery document describes it."""

    def __init__(self, settings: OidcSettings, clock: Callable[[], float] = time.time) -> None:
        require_package("joserfc", extra="oidc", why="sign-in with OpenID Connect")
        self.settings = settings
        self._clock = clock
        self._found: dict[str, Any] | None = None

    def address(self, state: str, begun: BegunSignIn) -> str:
        """Where a browser is sent."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(begun.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code", "client_id": self.settings.client_id, "redirect_uri": begun.redirect_uri,
            "scope": self.settings.scope, "state": state, "nonce": begun.nonce, "code_challenge": challenge,
            "code_challenge_method": "S256",
        }  # fmt: skip
        return f"{self._document()['authorization_endpoint']}?{urlencode(query)}"

    def claims(self, code: str, begun: BegunSignIn) -> Mapping[str, Any]:
        """What the provider says of whoever came back with this code; raises ``UnauthorizedError``."""
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": begun.redirect_uri,
            "client_id": self.settings.client_id, "code_verifier": begun.verifier,
        }  # fmt: skip
        answer = _fetch(self._document()["token_endpoint"], urlencode(form), self._basic())
        return self._checked(str(answer.get("id_token", "")), begun.nonce)

    def _checked(self, id_token: str, nonce: str) -> Mapping[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        rules = jwt.JWTClaimsRegistry(
            now=lambda: int(self._clock()), leeway=_LEEWAY_S, iss={"essential": True, "value": self.settings.issuer},
            aud={"essential": True, "value": self.settings.client_id}, nonce={"essential": True, "value": nonce},
            exp={"essential": True}, sub={"essential": True},
        )  # fmt: skip
        published = _fetch(self._document()["jwks_uri"])
        try:
            keys = KeySet.import_key_set(published)  # type: ignore[arg-type]
            claims = jwt.decode(id_token, keys, algorithms=_ALGORITHMS).claims
            rules.validate(claims)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            why = clean_text(str(error), _SHOWN)
            raise UnauthorizedError(
                f"The identity provider's answer is not valid ({why})", "an ID token for this server", "Try again"
            ) from None
        return claims

    def _document(self) -> dict[str, Any]:
        """The discovery document; kept once it was read."""
        if self._found is None:
            found = _fetch(f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != self.settings.issuer:
                raise UnavailableError(
                    f"The identity provider calls itself {str(found.get('issuer'))[:_SHOWN]!r}", self.settings.issuer,
                    "Set oidc.issuer to what it says",
                )  # fmt: skip
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                if not str(found.get(name)).startswith(("https://", "http://")):
                    raise UnavailableError(
                        f"The identity provider's discovery document has no usable {name}", "an address of the web",
                        "Check oidc.issuer",
                    )  # fmt: skip
            self._found = found
        return self._found

    def _basic(self) -> str:
        secret = self.settings.client_secret()
        return base64.b64encode(f"{self.settings.client_id}:{secret}".encode()).decode() if secret else ""


class _NoRedirect(HTTPRedirectHandler):
    """An address of the provider is the one its discovery document gives, and no other."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing: the redirect becomes the error that it is here."""


_web = OpenerDirector()
for _handler in (HTTPHandler, HTTPSHandler, HTTPErrorProcessor, HTTPDefaultErrorHandler, _NoRedirect, ProxyHandler):
    _web.add_handler(_handler())  # no files, no FTP


def _fetch(url: str, form: str | None = None, basic: str = "") -> dict[str, Any]:
    """A document of the provider; raises ``UnavailableError`` where it does not answer in time, or not with one."""
    headers = {"Accept": "application/json"} | ({"Authorization": f"Basic {basic}"} if basic else {})
    ends_at, body = time.monotonic() + _ANSWER_WITHIN_S, b""
    try:
        request = HttpRequest(url, None if form is None else form.encode(), headers)
        with _web.open(request, timeout=_ANSWER_WITHIN_S) as answer:
            while len(body) < _MOST_BYTES and (piece := answer.read1(_MOST_BYTES)):
                body += piece
                if time.monotonic() > ends_at:
                    raise TimeoutError(f"not done after {_ANSWER_WITHIN_S:g} s")
        found = json.loads(body)
    except (OSError, ValueError, HTTPException, RecursionError) as error:
        raise UnavailableError(
            f"The identity provider did not answer as it should ({clean_text(str(error), _SHOWN)})", "", "Try again"
        ) from None
    return found if isinstance(found, dict) else {}


def oidc_routes(provider: IdentityProvider, credentials: Credentials) -> APIRouter:
    """The way to the provider and back."""
    router = APIRouter(include_in_schema=False)
    under_way = BegunSignIns()

    @router.get(START)
    def start(request: Request) -> Response:
        target = inside(request.query_params.get("next"))
        state, begun = under_way.begin(target, str(request.url.replace(path=CALLBACK, query="")))
        try:
            response = RedirectResponse(provider.address(state, begun), 303)
        except RequestError as error:
            return sign_in_form(target, str(error), error.status, provider.settings.label)
        response.set_cookie(
            _COOKIE, state, max_age=int(_WITHIN_S), path=f"{ROOT}/oidc", httponly=True, samesite="lax",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        return response

    @router.get(CALLBACK)
    def callback(request: Request) -> Response:
        state = request.query_params.get("state", "")
        begun = under_way.take(state) if _same(request.cookies.get(_COOKIE, ""), state) else None
        target = begun.target if begun is not None else f"{ROOT}/"
        try:
            who = vouched_for(provider, credentials, request, begun)
            return entered(credentials, request, who, target)
        except RequestError as error:
            credentials.refuse("", address_of(request))
            return sign_in_form(target, str(error), error.status, provider.settings.label)

    return router


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


def vouched_for(
    provider: IdentityProvider, credentials: Credentials, request: Request, begun: BegunSignIn | None
) -> Principal:
    """Whoever came back from the provider, as somebody of ours."""
    if begun is None:
        raise UnauthorizedError("That sign-in was not begun in this browser, or too long ago", "", "Sign in again")
    if "error" in request.query_params:
        raise UnauthorizedError(f"The identity provider said {request.query_params['error'][:100]!r}", "", "Try again")
    claims = provider.claims(request.query_params.get("code", ""), begun)
    settings = provider.settings
    tenant, role = settings.tenant_of(claims), settings.role_of(claims)
    said = next((str(claims[key]) for key in ("email", "preferred_username", "sub") if claims.get(key)), "")
    name = clean_text(said[:_LONGEST_NAME])
    if not re.fullmatch(TENANT_NAME, tenant) or not role:
        raise UnauthorizedError(
            f"{name} is known to the identity provider, and has no {'role' if tenant else 'tenant'} here",
            f"a claim {settings.role_claim if tenant else settings.tenant_claim} that this server knows",
            "Ask whoever runs the server",
        )  # fmt: skip
    return credentials.vouch(name, Role(role), tenant, origin=settings.issuer, lasting_s=settings.session_s)
