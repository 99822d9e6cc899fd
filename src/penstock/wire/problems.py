"""What the API says when it cannot do as asked, and the same on the client's side.

Their place among all errors is drawn in :mod:`penstock.core.errors`.
"""

from typing import Any, ClassVar

from penstock.core import InputError, StorageFullError

MEDIA_TYPE = "application/problem+json"


class RequestError(InputError):
    """A request that is not granted."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "bad_request"


class MissingError(RequestError):
    status, code = 404, "not_found"


class ConflictError(RequestError):
    status, code = 409, "conflict"


class LossError(RequestError):
    """Work would be lost, and the caller did not say that this is accepted."""

    status, code = 409, "would_lose_work"


class ForbiddenError(RequestError):
    status, code = 403, "forbidden"


class UnauthorizedError(RequestError):
    status, code = 401, "unauthorized"


class TooLargeError(RequestError):
    status, code = 413, "too_large"


class TooManyError(RequestError):
    status, code = 429, "too_many_requests"


class UnavailableError(RequestError):
    status, code = 503, "unavailable"


_BY_CODE: dict[str, type[InputError]] = {kind.code: kind for kind in RequestError.__subclasses__()}
_BY_CODE[StorageFullError.code] = StorageFullError


def problem(error: InputError) -> dict[str, Any]:
    """The body of an answer that says no."""
    status, code = 422, "invalid"
    if isinstance(error, RequestError | StorageFullError):
        status, code = error.status, error.code
    return {
        "status": status,
        "code": code,
        "message": str(error.given),
        "allowed": error.allowed,
        "hint": error.hint,
    }


def error_from(body: dict[str, Any]) -> InputError:
    """The error a problem was made from, as far as it can be told."""
    kind = _BY_CODE.get(str(body.get("code")), InputError)
    return kind(str(body.get("message", "")), str(body.get("allowed", "")), str(body.get("hint", "")))
