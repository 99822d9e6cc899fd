"""Who is asking, and whether they may: the rights that every request needs checked first."""

from penstock.control.state.store import Principal, Role, TokenRepository
from penstock.wire import ForbiddenError, UnauthorizedError


def authenticate(tokens: TokenRepository, secret: str) -> Principal:
    """The holder of a token that is valid."""
    principal = tokens.check(secret.strip())
    if principal is None:
        raise UnauthorizedError("This token is not valid", "a token that was not revoked", "Ask an admin for a new one")
    return principal


def still_valid(tokens: TokenRepository, holder: Principal) -> Principal:
    """The holder as of now; a token that was revoked meanwhile counts no longer."""
    principal = tokens.find(holder.id)
    if principal is None:
        raise UnauthorizedError("This token was revoked", "a token that is valid", "Sign in again")
    return principal


def require_admin(principal: Principal) -> Principal:
    if principal.role is not Role.ADMIN:
        raise ForbiddenError(f"This token has the role {principal.role}", "the role admin", "Ask an admin")
    return principal
