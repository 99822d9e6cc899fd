"""How far the jobs of one tenant are kept from those of another and from the server itself, checked before it starts.

The documentation's page on security says what each arrangement protects. What this machine does not allow is refused
or said aloud here, before anybody relies on it.
"""

import logging
import os
import pwd
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.core import InputError, is_plugin
from penstock.serve.config import Config
from penstock.tools import UnixUser, acting_as, closed_to, may_execute

if TYPE_CHECKING:
    from penstock.backends import TenantUsers
    from penstock.control import Journal, Tenancy

_log = logging.getLogger(__name__)
OWNER_TENANT = "default"
"""The tenant of the owner's token, and so the first one."""
_OF_ONE_POD = frozenset({"emptyDir", "ephemeral", "configMap", "secret", "projected", "downwardAPI"})


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
    if config.backend in ("local", "slurm"):
        _log.warning(
            "jobs run as the server's own user %s: they can read what it can, its tokens and other tenants' files "
            "included. Set run_as to keep them apart.", _own_user(),
        )  # fmt: skip
    return users


def tenancy_of(config: Config, journal: "Journal", users: "TenantUsers") -> "Tenancy":
    """Return which tenants this server admits. A backend of another module isolates jobs as it likes."""
    from penstock.control import Role, Tenancy

    def user_of(tenant: str) -> str:
        user = users.of(tenant)
        return user.name if user else _own_user()

    def in_use() -> dict[str, str]:
        found = {OWNER_TENANT: "the owner's token"}
        for token in journal.store.tokens.list():
            if token.role is not Role.ADMIN:
                found.setdefault(token.tenant, f"token {token.name!r} ({token.id})")
        with journal.reading() as state:
            for tenant, job_id in state.active.one_of_each().items():
                found.setdefault(tenant, f"job {job_id}")
        return found

    accepted = config.accept_shared_user or is_plugin(config.backend)
    if config.backend != "kubernetes":
        return Tenancy(user_of, in_use, accepted)
    return _tenancy_of_pods(config, in_use, accepted)


def _tenancy_of_pods(config: Config, in_use: Callable[[], dict[str, str]], accepted: bool) -> "Tenancy":
    """Pods of all tenants run as one user in one namespace: isolated unless they can write to the same volume."""
    from penstock.backends import KubernetesSettings
    from penstock.control import Tenancy

    settings = KubernetesSettings.of(config.backend_settings)
    shared = [str(volume["name"]) for volume in settings.volumes if _keeps_writes(volume)]
    return Tenancy(
        lambda _: str(settings.run_as_user), in_use, accepted or not shared,
        f"Make the volumes {', '.join(shared)} readOnly, start a server in a namespace of its own for each tenant",
    )  # fmt: skip


def _keeps_writes(volume: Mapping[str, Any]) -> bool:
    """Whether what one pod writes there is still there for another one."""
    return not (volume.get("readOnly") or _OF_ONE_POD & volume.keys())


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
