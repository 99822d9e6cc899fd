"""What a diagnosis is made of: lines that a signature has a name for, and tracebacks that none does."""

import re
from dataclasses import dataclass

from penstock.core import NOBODY, Culprit, Evidence
from penstock.diagnose.signatures.catalogue import PRECEDENCE
from penstock.diagnose.signatures.model import Level, Signature

_TIERS = {Level.ROOT: 0, Level.PROBABLE: 2, Level.SYMPTOM: 3, Level.WARNING: 4}
TELLING_TIER = _TIERS[Level.PROBABLE]
"""Up to here a line speaks of a cause, and not only of what was noticed."""
_SCRIPT_TIER, _VAGUE_TIER = 1, 3
"""An error of the script comes after a cause that a line names, and before what a peer's end would look like too; one
that need not be the script's own fault comes after that."""
_WITHIN = {
    "hw": ("gpu_lost", "gpu_ecc", "nvlink", "fabric", "pcie"),
    "build": ("cuda_mismatch", "abi", "deps", "ext"),
    "net": ("iface", "ib", "tcp"),
    "rdzv": ("port", "stale", "connect", "timeout"),
    "comm": ("mismatch", "p2p", "desync", "peer_died", "timeout", "generic"),
    "proc": ("segv", "sigterm"),
}
"""Of families whose members explain each other, those that explain first."""
_LATER = float("inf")
_NO_INPUT = "EOF when reading a line"
"""What ``input()`` says where no standard input is, as in every job."""
_PASSED_ON = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException|Ray\w*Error|ActorDiedError|"
    r"WorkerCrashedError|SystemExit|KeyboardInterrupt|BrokenPipeError|ConnectionResetError|ConnectionRefusedError|"
    r"EOFError|SignalException|Dist\w*Error|HorovodInternalError|NCCLError|TimeoutError|RemoteException|RemoteError|"
    r"HostsUpdatedInterrupt|CancelledError|WorldLostError|GangLostError"
)
_OWN_FAULTS = re.compile(
    r"TypeError|KeyError|ValueError|AttributeError|NameError|UnboundLocalError|SyntaxError|IndentationError|TabError|"
    r"ImportError|ModuleNotFoundError|AssertionError|IndexError|NotImplementedError|ZeroDivisionError|FileNotFoundError|"
    r"NotADirectoryError|IsADirectoryError|FileExistsError|PermissionError|RecursionError|LookupError|\w*ValidationError|"
    r"\w*ConfigError|HFValidationError|JSONDecodeError|ParserError|MissingConfigException|ArgumentError"
)
_MISFITS = re.compile(
    r"shape|size mismatch|must match the size|mat1 and mat2|expected scalar type|expected object of|should be the same|"
    r"does not require grad|backward through the graph|in-?place operation|target .* out of bounds|dimension|stride",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One line that says something. ``order`` is where it stands among all lines that were read."""

    signature: Signature
    evidence: Evidence
    culprit: Culprit = NOBODY
    order: int = 0
    at: float | None = None
    progress: int | None = None
    """The last collective that the rank of the line had come to, where it says."""

    @property
    def tier(self) -> int:
        return _TIERS[self.signature.level]

    @property
    def weight(self) -> tuple[int, int, int, float, int]:
        """The smaller, the nearer to the root: how much it says, what kind it is of, and when it was."""
        family, _, member = self.signature.category.partition(".")
        place = PRECEDENCE.index(family) if family in PRECEDENCE else -1
        within = _WITHIN.get(family, ())
        inner = within.index(member) if member in within else 0
        return self.tier, place, inner, _LATER if self.at is None else self.at, self.order


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptError:
    """A traceback whose error no signature has a name for."""

    name: str
    error: str
    frame: str
    owned: bool
    evidence: Evidence
    culprit: Culprit = NOBODY
    order: int = 0

    @property
    def tier(self) -> int:
        return _SCRIPT_TIER if self.recurs else _VAGUE_TIER

    @property
    def passed_on(self) -> bool:
        """Whether it only tells that another process has failed."""
        return _PASSED_ON.fullmatch(self.name) is not None and _NO_INPUT not in self.error

    @property
    def recurs(self) -> bool:
        """Whether the same code would fail the same way again."""
        return (
            bool(_OWN_FAULTS.fullmatch(self.name))
            or _NO_INPUT in self.error
            or bool(self.name == "RuntimeError" and _MISFITS.search(self.error))
        )
