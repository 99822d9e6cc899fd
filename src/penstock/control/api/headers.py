"""Headers that keep other sites out of pages: not in a frame, not guessed at, not told where one came from."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = {
    "x-frame-options": "DENY",
    "content-security-policy": "frame-ancestors 'none'; base-uri 'self'; form-action 'self'; object-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}
_RAW = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]


class SecurityHeaders:
    """Middleware that adds them to every answer which does not say something stricter itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name.lower() for name, _ in message.get("headers", ())}
                ours = [header for header in _RAW if header[0] not in said]
                message = {**message, "headers": [*message.get("headers", ()), *ours]}
            await send(message)

        await self._app(scope, receive, sending if scope["type"] == "http" else send)
