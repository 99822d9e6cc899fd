"""Who jobs run as: names that exist, never root, and nobody by accident."""

import os

import pytest

from penstock.backends import TenantUsers
from penstock.core import InputError
from tests.serve.other_users import USERS, needs_other_users
from tests.tools import needs


def test_without_a_setting_jobs_are_the_servers_own() -> None:
    for nothing in (None, "", {}):
        users = TenantUsers.of_setting(nothing)
        assert not users.any
        assert users.of("red") is None


@pytest.mark.skipif(
    os.geteuid() == 0, reason=needs.reason("root may start processes as every user", needs.ORDINARY_USER)
)
def test_a_server_that_is_not_roots_cannot_change_users() -> None:
    with pytest.raises(InputError, match="does not run as root"):
        TenantUsers.of_setting("nobody")


@needs_other_users
def test_a_name_a_pattern_and_a_table_say_who_a_tenants_jobs_are() -> None:
    one, pattern = TenantUsers.of_setting(USERS[0]), TenantUsers.of_setting("{tenant}")
    table = TenantUsers.of_setting({"red": USERS[0], "*": USERS[1]})
    found = [users.of(tenant) for users, tenant in ((one, "any"), (pattern, USERS[1]), (table, "red"), (table, "x"))]
    assert [user.name for user in found if user] == [USERS[0], USERS[1], USERS[0], USERS[1]]


@needs_other_users
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("root", "every right of this server"),
        ({"red": "root"}, "every right of this server"),
        ("no-such-user-here", "no Unix user 'no-such-user-here'.*useradd"),
    ],
)
def test_users_that_protect_nothing_are_refused(setting: str | dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        TenantUsers.of_setting(setting)


@needs_other_users
def test_a_tenant_is_never_root_by_its_name_and_never_without_a_user() -> None:
    with pytest.raises(InputError, match="every right"):
        TenantUsers.of_setting("{tenant}").of("root")
    with pytest.raises(InputError, match=r"no Unix user is named for tenant 'blue'.*red"):
        TenantUsers.of_setting({"red": USERS[0]}).of("blue")
