"""Headers that keep other sites out of pages: no frames, no guessed types, no referrer.

Scripts come from files of this server, or carry the nonce of their request (``request.state.nonce``): text that reaches
a page as markup by mistake runs nothing.
"""

import secrets

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}
_POLICY = (
    "frame-ancestors 'none'; base-uri 'self'; form-action 'self'; object-src 'none'; "
    "script-src 'self' 'nonce-{}' 'unsafe-eval'"
)
"""The framework of the pages evaluates the code that their own socket brings, hence ``unsafe-eval``."""
_RAW = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]


class SecurityHeaders:
    """Middleware that adds them to every answer which does not say something stricter itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})["nonce"] = nonce
        raw = [*_RAW, (b"content-security-policy", _POLICY.format(nonce).encode())]

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name.lower() for name, _ in message.get("headers", ())}
                ours = [header for header in raw if header[0] not in said]
                message = {**message, "headers": [*message.get("headers", ()), *ours]}
            await send(message)

        await self._app(scope, receive, sending if scope["type"] == "http" else send)
