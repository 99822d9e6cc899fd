"""Every error Penstock raises on purpose, wherever in the package it is defined.

::

    PenstockError                   exit code 1, HTTP 500
    ├── InputError                  what a person gave cannot be used; nothing was changed: exit code 2, HTTP 422
    │   ├── UnitError               "6 parsecs", "12XB", "0x8"
    │   ├── UnknownNameError        no policy, placement, model or format of that name
    │   ├── ClusterError            a cluster that cannot exist
    │   ├── CurveError              a throughput table that says nothing
    │   ├── JobError                a job or goal that contradicts itself
    │   ├── PluginError             a part of your own, named module:attribute, that cannot be loaded or does not fit
    │   ├── MissingExtraError       something that needs a package of an extra that is not installed
    │   ├── PlanError               a parallel plan that contradicts itself or cannot be carried out
    │   ├── PreparationError        packages or an environment that a job asks for and cannot have
    │   ├── UnreadableCheckpointError a checkpoint that is damaged or of another format
    │   ├── TraceError              a trace file that cannot be read; names file, line and column
    │   ├── StorageError            a file of the server that cannot be used now: HTTP 503
    │   ├── StorageFullError        there is no room to keep it: HTTP 507
    │   └── RequestError            a request that the platform does not grant: HTTP 400
    │       ├── MissingError        there is no such thing, or it is somebody else's: HTTP 404
    │       ├── ConflictError       there is, but its state does not allow that: HTTP 409
    │       ├── LossError           work would be lost, and the caller did not say that this is accepted: HTTP 409
    │       ├── ForbiddenError      not with this token: HTTP 403
    │       ├── UnauthorizedError   no token, or none that is valid: HTTP 401
    │       ├── TooLargeError       HTTP 413
    │       ├── TooManyError        HTTP 429
    │       └── UnavailableError    not now: HTTP 503
    │           ├── DamagedError    a database whose content is not what was written: exit code 1
    │           └── LeaseLostError  another server has claimed the database: exit code 3
    ├── Refused                     an InputError on its way through a validator of job files
    ├── CodecError                  data that this version does not write and cannot read
    ├── EventError                  an event that does not fit the scheduler's state; nothing was changed
    ├── InvariantError              the scheduler broke one of its own promises: always our bug
    ├── CulpritError                one of several entries cannot be taken in; they come one by one
    ├── SetAsideError               an entry of the log that the scheduler failed on; it is passed over
    ├── AlreadyServedError          another server holds the data directory: exit code 3
    ├── ServerStartError            a server could not be started; says what its log said
    ├── StillServingError           a server that was asked to end and did not
    ├── WaitedError                 a wait that took as long as it was allowed to: exit code 124
    ├── BackendError                a backend could not do as it was told
    │   ├── ClusterApiError         the API server of a cluster refused; its own words
    │   ├── UnreachableClusterError the API server of a cluster does not answer
    │   ├── SlurmError              a command of Slurm's has failed
    │   ├── SilentError             whoever looks after a run does not answer
    │   └── ShortageError           the machine has too little of something for one more run, at present
    │       └── NotLeadingError     another server acts in the cluster, or nobody can know at present
    ├── DamagedShardError           packed tokens that are not what was written; other samples are taken instead
    ├── TooMuchDamageError          more of packed tokens is damaged than a training should pass over
    ├── DeliveryError               a notification did not arrive; it is tried again
    ├── StaleCommandError           a command for a run that has moved on
    ├── ProtocolError               a message between agent and worker that cannot be understood
    │   └── VersionError            agent and worker speak different versions
    ├── DivergedError               training went wrong again after it went back as often as it may
    ├── RefusedError                an agent does not accept a worker
    ├── WorldLostError              a member of a group of workers is gone
    ├── WorldOverError              a group of workers has been left for the next one
    └── OutOfTimeError              a search that was not done in time

An :class:`InputError` says three things: what was given, what is allowed, and what to do next. ``exit_code`` is what
the command line ends with; docs/errors.md lists it beside the answers of the HTTP API.
"""

import difflib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

_LONGEST = 1500
_LONGEST_NAME = 200


class PenstockError(Exception):
    """Base of everything raised on purpose."""

    exit_code: ClassVar[int] = 1


class InputError(PenstockError):
    """Something a person gave cannot be used."""

    exit_code: ClassVar[int] = 2

    def __init__(self, given: str, allowed: str = "", hint: str = "") -> None:
        given, hint = _shortened(given), _shortened(hint)
        self.given = given
        self.allowed = allowed
        self.hint = hint
        parts = [given, f"Allowed: {allowed}" if allowed else "", hint]
        super().__init__(" ".join(part if part.endswith(("?", ".", "…")) else f"{part}." for part in parts if part))

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str, str]]:
        return type(self), (self.given, self.allowed, self.hint)


def _shortened(text: str) -> str:
    """What was given may be a mebibyte; who reads the message needs its beginning and its length."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


class UnitError(InputError):
    """A quantity that cannot be read."""


class UnknownNameError(InputError):
    """A name that is not in the list it is looked up in."""

    @classmethod
    def of(cls, what: str, name: str, known: Iterable[str], hint: str = "") -> "UnknownNameError":
        names = sorted(str(each) for each in known)
        name = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
        folded = {each.casefold(): each for each in names}
        near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
        suggestion = f"Did you mean {folded[near[0]]!r}?" if near else hint
        return cls(f"unknown {what} {name!r}", ", ".join(names), suggestion)


class ClusterError(InputError):
    """A cluster that cannot exist."""


class CurveError(InputError):
    """A throughput table that cannot be used."""


class JobError(InputError):
    """A job or goal that contradicts itself."""


CPU_BUILD = (
    "about 6 GB with CUDA; for the CPU build, about 1 GB, first install torch from the CPU index that the install page "
    "of pytorch.org names"
)
"""How large PyTorch is, and how to have less of it."""


def install_command(extra: str, pip: str = "pip") -> str:
    """Return the command that adds an extra: from the checkout that this code lies in, else from Penstock's wheel.

    Not by the name alone: no package index has Penstock, so whoever registered that name there could run code here.
    """
    checkout = Path(__file__).parents[3]
    if (checkout / "pyproject.toml").is_file():
        return f"{pip} install -e '{checkout}[{extra}]'"
    return f"{pip} install 'penstock-{version('penstock')}-py3-none-any.whl[{extra}]'"


class MissingExtraError(InputError, ImportError):
    """Something that needs a package which is not installed; says how to install it."""

    def __init__(self, why: str, package: str, extra: str) -> None:
        size = f" ({CPU_BUILD})" if package == "torch" else ""
        super().__init__(f"{why} needs {package}, which is not installed: {install_command(extra)}{size}")
        self.why, self.name, self.extra = why, package, extra

    def __reduce__(self) -> tuple[type["MissingExtraError"], tuple[str, str, str]]:
        return type(self), (self.why, str(self.name), self.extra)


class PlanError(InputError):
    """A parallel plan that contradicts itself or cannot be carried out."""


class PluginError(InputError):
    """A part that lives outside of the package and cannot be used."""


class StorageError(InputError):
    """A file of the server that cannot be used now: its disk or its rights are at fault, not the request."""

    status: ClassVar[int] = 503
    code: ClassVar[str] = "unavailable"


class StorageFullError(InputError):
    """There is no room to keep what was given; nothing was changed."""

    status: ClassVar[int] = 507
    code: ClassVar[str] = "storage_full"


class TraceError(InputError):
    """A trace or profile file that cannot be read."""


class CodecError(PenstockError):
    """Data that is not what this version of Penstock writes."""


class EventError(PenstockError):
    """An event that does not fit the scheduler's state; the state is unchanged."""


class InvariantError(PenstockError):
    """The scheduler's state contradicts one of its promises."""
