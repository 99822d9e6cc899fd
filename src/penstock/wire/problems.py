"""What the API says when it cannot do as asked, and the same on the client's side.

Their place among all errors is drawn in :mod:`penstock.core.errors`.
"""

from typing import Any, ClassVar

from penstock.core import InputError

MEDIA_TYPE = "application/problem+json"


class RequestError(InputError):
    """A request that is not granted."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "bad_request"


class MissingError(RequestError):
    status, code = 404, "not_found"


class ConflictError(RequestError):
    status, code = 409, "conflict"


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


class StorageFullError(RequestError):
    status, code = 507, "storage_full"


_BY_CODE: dict[str, type[RequestError]] = {kind.code: kind for kind in RequestError.__subclasses__()}


def problem(error: InputError) -> dict[str, Any]:
    """The body of an answer that says no."""
    kind = type(error) if isinstance(error, RequestError) else None
    return {
        "status": kind.status if kind else 422,
        "code": kind.code if kind else "invalid",
        "message": str(error.given),
        "allowed": error.allowed,
        "hint": error.hint,
    }


def error_from(body: dict[str, Any]) -> InputError:
    """The error a problem was made from, as far as it can be told."""
    kind: type[InputError] = _BY_CODE.get(str(body.get("code")), InputError)
    return kind(str(body.get("message", "")), str(body.get("allowed", "")), str(body.get("hint", "")))
