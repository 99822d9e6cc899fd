"""How much one tenant may ask for, as admins set it while the server runs."""

from dataclasses import asdict, dataclass

from sqlalchemy import delete, insert, select

from penstock.control.state.store.database import Database
from penstock.control.state.store.tables import quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Limits of one tenant: jobs that are not over, devices one job may ask for, requests a second. ``None``: none."""

    active_jobs: int | None = None
    devices: int | None = None
    requests_per_s: float | None = None


class QuotaRepository:
    """One row for each tenant that has limits of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> dict[str, Quota]:
        with self._database.connect() as connection:
            return {
                row.tenant: Quota(active_jobs=row.active_jobs, devices=row.devices, requests_per_s=row.requests_per_s)
                for row in connection.execute(select(quotas))
            }

    def set(self, tenant: str, quota: Quota) -> None:
        with self._database.begin() as connection:
            connection.execute(delete(quotas).where(quotas.c.tenant == tenant))
            connection.execute(insert(quotas).values(tenant=tenant, **asdict(quota)))
