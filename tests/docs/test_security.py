"""The table of roles in the documentation is the one the server asks."""

import re
from pathlib import Path

from penstock.control import RIGHTS, Action, Role
from penstock.control.platform.access import SCOPES

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def test_the_documented_table_of_roles_is_the_real_one() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \| (.*) \|$", PAGE.split("## Roles")[1].split("## Tokens")[0], re.MULTILINE)
    head, *told = [(name, cells.split(" | ")) for name, cells in rows]
    assert head == ("may", [*Role, "scope"])
    assert dict(told) == {
        str(action): [*("yes" if action in RIGHTS[role] else "no" for role in Role), SCOPES[action]]
        for action in Action
    }
