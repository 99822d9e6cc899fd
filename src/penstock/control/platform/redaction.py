"""Variables of jobs as others see them: those whose names say that they are secret are shown without their values.

Secrets belong into the store of secrets. People put them into ``environment.env`` all the same, from where they stand
in the log; at least no list, page or event repeats them.
"""

import re
from collections.abc import Mapping
from typing import Any

from penstock.control.notify.recipients import shown_address

HIDDEN = "***"
_SECRET = re.compile(r"(?i).*(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)$")


def redacted_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A job file without the values of such variables."""
    spec = _without_addresses(spec)
    environment = spec.get("environment")
    if not isinstance(environment, Mapping) or not isinstance(environment.get("env"), Mapping):
        return dict(spec)
    return {**spec, "environment": {**environment, "env": _redacted(environment["env"])}}


def _without_addresses(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Whoever knows the address of a chat can write there."""
    notify = spec.get("notify")
    if not isinstance(notify, Mapping) or not isinstance(notify.get("to"), list | tuple):
        return spec
    return {**spec, "notify": {**notify, "to": [shown_address(str(address)) for address in notify["to"]]}}


def redacted_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the log without them, in the job file and in the recipe made of it."""
    shown = dict(payload)
    if isinstance(spec := payload.get("spec"), Mapping):
        shown["spec"] = redacted_spec(spec)
    if isinstance(recipe := payload.get("recipe"), Mapping) and isinstance(recipe.get("env"), list | tuple):
        pairs = [[name, HIDDEN if is_secret(name) else value] for name, value in recipe["env"]]
        shown["recipe"] = {**recipe, "env": pairs}
    return shown


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds what nobody should read."""
    return _SECRET.fullmatch(name) is not None


def _redacted(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: HIDDEN if is_secret(name) else value for name, value in variables.items()}
