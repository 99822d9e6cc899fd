"""How far the jobs of one tenant are kept from those of another and from the server itself, checked before it starts.

The documentation's page on security says what each arrangement protects. What this machine does not allow is refused
or said aloud here, before anybody relies on it.
"""

import logging
import os
import pwd
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core import InputError
from penstock.serve.config import Config
from penstock.tools import UnixUser, acting_as, closed_to, may_execute

if TYPE_CHECKING:
    from penstock.backends import TenantUsers
    from penstock.control import Journal, Tenancy

_log = logging.getLogger(__name__)


def tenant_users(config: Config) -> "TenantUsers":
    """Who jobs run as, on a machine where that can work."""
    from penstock.backends import TenantUsers

    users = TenantUsers.of_setting(config.run_as if config.backend in ("local", "slurm") else None)
    if users.any:
        os.setgroups([])
        for user in users.named():
            _check_reach(config.job_files.absolute(), user)
        _warn_of_older_runs(config)
        return users
    if config.backend == "local":
        _log.warning(
            "jobs run as the server's own user %s: they can read what it can, its tokens and other tenants' files "
            "included. Set run_as to keep them apart.", _own_user(),
        )  # fmt: skip
    return users


def tenancy_of(config: Config, journal: "Journal", users: "TenantUsers") -> "Tenancy":
    """Who may be a tenant of this server. A backend of somebody's own isolates jobs as it likes."""
    from penstock.control import Role, Tenancy

    def user_of(tenant: str) -> str:
        user = users.of(tenant)
        return user.name if user else _own_user()

    def in_use() -> set[str]:
        holders = {token.tenant for token in journal.store.tokens.list() if token.role is not Role.ADMIN}
        with journal.reading() as state:
            return holders | {record.job.tenant for record in state.engaged.values()}

    return Tenancy(user_of, in_use, accept_shared=config.accept_shared_user or config.backend != "local")


def _own_user() -> str:
    """Who runs this server; in a container that may be a number without a name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def _check_reach(directory: Path, user: UnixUser) -> None:
    """Refuse a place for jobs that their user cannot come to; warn of a Python or packages that it cannot use."""
    there = next(parent for parent in directory.parents if parent.is_dir())
    with acting_as(user):
        passable = _enters(there)
    if not passable:
        raise InputError(
            f"the user {user.name} cannot enter {there}, so its jobs could not reach their files in {directory}",
            "a directory whose parents everybody may enter", "Set jobs_dir, for example to /var/lib/penstock-jobs",
        )  # fmt: skip
    if not may_execute(user, sys.executable):
        _log.warning(
            "the user %s cannot start %s: jobs that give a script, or requirements, will fail. Install Penstock where "
            "every user can read it, or name another Python in the command.", user.name, sys.executable,
        )  # fmt: skip
    elif closed := closed_to(user, sys.path):
        _log.warning(
            "the user %s cannot read %s, where packages of %s lie: jobs that import them from there will fail. Install "
            "Penstock and PyTorch where every user can read them.", user.name, ", ".join(closed), sys.executable,
        )  # fmt: skip


def _warn_of_older_runs(config: Config) -> None:
    """Runs from before ``run_as`` was set lie where their new users cannot come, and where nobody looks for them."""
    if config.job_files != config.data_dir and any((config.data_dir / "runs").glob("*/launch.json")):
        _log.warning(
            "%s holds runs from before run_as was set; they are not looked after any more. Jobs that were under way "
            "start again.", config.data_dir / "runs",
        )  # fmt: skip


def _enters(directory: Path) -> bool:
    """Whether this thread, as it is now, gets into a directory and all those above it."""
    try:
        os.stat(f"{directory}/.")
    except OSError:
        return False
    return True
