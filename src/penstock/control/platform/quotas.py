"""What each tenant may have at most: as configured, and over that as admins set it while the server runs."""

from collections.abc import Mapping
from dataclasses import replace

from penstock.control.state.store import Quota, QuotaRepository
from penstock.core import Job
from penstock.wire import ForbiddenError, TooManyError

DEFAULT_TENANT = "*"
"""Whose limits hold for every tenant that has none of its own."""
MAX_ACTIVE_JOBS = 200_000
"""Of one tenant, where no quota says otherwise: each takes some kilobytes of the server's memory."""


class Quotas:
    """Limits by tenant. ``max_active_jobs`` is how many jobs that are not over a tenant without such a limit has."""

    def __init__(
        self,
        repository: QuotaRepository,
        configured: Mapping[str, Quota] | None = None,
        *,
        max_active_jobs: int = MAX_ACTIVE_JOBS,
    ) -> None:
        self._repository = repository
        self._max_active_jobs = max_active_jobs
        self._quotas = dict(configured or {}) | repository.all()

    def all(self) -> dict[str, Quota]:
        return dict(self._quotas)

    def of(self, tenant: str) -> Quota:
        return self._quotas.get(tenant) or self._quotas.get(DEFAULT_TENANT) or Quota()

    def set(self, tenant: str, quota: Quota) -> None:
        self._repository.set(tenant, quota)
        self._quotas = self._quotas | {tenant: quota}

    def fitted(self, job: Job) -> Job:
        """The job within its tenant's devices; raises :class:`~penstock.wire.ForbiddenError` if it asks for more."""
        most = self.of(job.tenant).devices
        if most is None:
            return job
        asked = max(job.at_least, job.at_most or 0)
        if asked > most:
            raise ForbiddenError(
                f"The job asks for {asked} devices", f"at most {most} for tenant {job.tenant}",
                "Ask for fewer devices, or an admin for a larger quota",
            )  # fmt: skip
        return replace(job, at_most=most if job.at_most is None else job.at_most)

    def check_active(self, tenant: str, active: int) -> None:
        """Whether one more job may be handed in; raises :class:`~penstock.wire.TooManyError`."""
        quota = self.of(tenant).active_jobs
        most = self._max_active_jobs if quota is None else quota
        if active >= most:
            raise TooManyError(
                f"Tenant {tenant} has {active} jobs that are not over", f"at most {most}",
                "Wait until one has ended, cancel one, or ask an admin for a larger quota",
            )  # fmt: skip
