"""What admins do: tokens, quotas and the audit log. A tenant admin does it for its own tenant."""

from dataclasses import asdict

from penstock.control.platform.access import RANK, Action, require
from penstock.control.platform.audit import AuditLog
from penstock.control.platform.credentials import Credentials
from penstock.control.platform.presenter import audit_view, token_view
from penstock.control.platform.quotas import Quotas
from penstock.control.platform.tenancy import Tenancy
from penstock.control.state.journal import Journal
from penstock.control.state.store import Principal, Quota, Role, Scope
from penstock.core import InputError, parse_deadline
from penstock.wire import AuditPage, ForbiddenError, MissingError, QuotaRequest, QuotaView, TokenRequest, TokenView


class Administration:
    """The platform's own affairs, on behalf of a principal."""

    def __init__(
        self, journal: Journal, credentials: Credentials, quotas: Quotas, audit: AuditLog, tenancy: Tenancy
    ) -> None:
        self._tenancy = tenancy
        self._journal = journal
        self._tokens = journal.store.tokens
        self._credentials = credentials
        self._quotas = quotas
        self._audit = audit

    def tokens(self, who: Principal) -> list[TokenView]:
        require(who, Action.TOKENS)
        return [token_view(token) for token in self._tokens.list(who.sees)]

    def create_token(self, wanted: TokenRequest, who: Principal) -> TokenView:
        """A new token. Its secret is in this answer and nowhere else."""
        with self._audit.recorded(who, "create token", f"{wanted.role} {wanted.name} of {wanted.tenant}"):
            require(who, Action.TOKENS)
            role, scope = Role(wanted.role), frozenset(map(Scope, wanted.scope)) or who.scope
            expires_at = self._end(wanted.expires, who)
            _must_not_exceed(who, role, scope, wanted.tenant)
            if role is not Role.ADMIN:
                self._tenancy.admit(wanted.tenant)
            secret, token = self._tokens.create(
                name=wanted.name, role=role, tenant=wanted.tenant, now=self._journal.now(), scope=scope,
                expires_at=expires_at,
            )  # fmt: skip
        return token_view(token, secret)

    def revoke_token(self, token_id: str, who: Principal) -> None:
        """Make a token worthless; its sessions and streams end at once."""
        with self._audit.recorded(who, "revoke token", token_id):
            require(who, Action.TOKENS)
            found = self._tokens.find(token_id)
            if found is None or not who.may_see(found.tenant) or not self._credentials.revoke(token_id):
                raise MissingError(
                    f"There is no token {token_id!r}", "the id of a token that is valid", "GET /v1/tokens lists them"
                )

    def audit(self, who: Principal, *, before: int | None, limit: int, action: str | None) -> AuditPage:
        """What was done, the newest first; a tenant admin sees what was done for its tenant."""
        require(who, Action.AUDIT)
        entries = self._audit.page(before=before, limit=limit + 1, tenant=who.sees, action=action)
        following = entries[limit - 1].seq if len(entries) > limit else None
        return AuditPage(entries=[audit_view(entry) for entry in entries[:limit]], next=following)

    def quotas(self, who: Principal) -> list[QuotaView]:
        """The limits of every tenant that has some; others than an admin see those that hold for them."""
        require(who, Action.LOOK)
        if who.sees is not None:
            return [QuotaView(tenant=who.tenant, **asdict(self._quotas.of(who.tenant)))]
        return [QuotaView(tenant=tenant, **asdict(quota)) for tenant, quota in sorted(self._quotas.all().items())]

    def set_quota(self, tenant: str, wanted: QuotaRequest, who: Principal) -> QuotaView:
        with self._audit.recorded(who, "set quota", tenant):
            require(who, Action.QUOTAS)
            quota = Quota(**wanted.model_dump())
            self._quotas.set(tenant, quota)
        return QuotaView(tenant=tenant, **asdict(quota))

    def _end(self, wanted: str | None, who: Principal) -> float | None:
        """When a new token expires: never after the one it was made with, unless a person stands behind that.

        A session ends sooner than the token it was opened with; that is no limit.
        """
        own = self._tokens.find(who.id) or who
        now, last = self._journal.now(), None if who.origin else own.expires_at
        if wanted is None:
            return last
        end = parse_deadline(wanted, now)
        if end <= now:
            raise InputError(f"a token that expires at {wanted}", "a time after now", 'Try "30d"')
        if last is not None and end > last:
            raise ForbiddenError(
                f"a token that lasts for {wanted}", "none that outlives your own", "Use a token that lasts longer"
            )
        return end


def _must_not_exceed(who: Principal, role: Role, scope: frozenset[Scope], tenant: str) -> None:
    """Nobody gives away more than they have."""
    if not who.may_see(tenant):
        raise ForbiddenError(f"a token for tenant {tenant}", f"your own tenant, {who.tenant}", "Ask an admin")
    if RANK[role] > RANK[who.role]:
        raise ForbiddenError(f"a token of the role {role}", f"at most your own, {who.role}", "Ask an admin")
    if who.scope and not scope <= who.scope:
        raise ForbiddenError(
            f"a token for {', '.join(sorted(scope))}", f"at most your own scope, {', '.join(sorted(who.scope))}",
            "Use a token with a larger scope",
        )  # fmt: skip
