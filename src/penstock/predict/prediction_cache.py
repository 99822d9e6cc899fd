"""Predictions for jobs that nobody has measured: made once, in a process of their own, and kept.

A job's script is imported to ask it for its model, and what a script does when it is imported is anybody's guess: it
may take long, print, start threads or end the process. So that happens in a child with a time limit, started in the
job's directory with the job's Python as the job's user; the server hears one line of it, keeps what it says if it is an
answer, and ends whatever the child leaves behind.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from penstock.core import Curve, CurveError, PenstockError, Scaling, Source
from penstock.predict.model_sources import offers_hook
from penstock.predict.predicted_curve import predict_curve, profile_for
from penstock.tools import UnixUser, acting_as, die_with_parent, process_options, write_atomically

LIMIT_S = 120.0
"""How long a script may take to be imported and followed: its job waits for that, once, and nobody else."""
_TURN_S = 300.0
"""How long to wait while other scripts are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRequest:
    """What a prediction depends on; the same question is asked once."""

    fingerprint: str
    script: str
    batch: int
    kind: str
    counts: tuple[int, ...]
    profiles: str
    """The folder of profiles measured here, besides the usual ones."""
    threads: int = 0
    working_dir: str = ""
    """Where the job runs; the script's own folder if nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionReply:
    """A scaling, or why there is none."""

    scaling: Scaling | None = None
    reason: str = ""


@dataclass(slots=True)
class PredictionCache:
    """Answers under ``folder``; one child at a time, so that a rush of new scripts does not take the machine."""

    folder: Path
    limit_s: float = LIMIT_S
    _failed: dict[PredictionRequest, PredictionReply] = field(default_factory=dict)
    _busy: threading.Lock = field(default_factory=threading.Lock)

    def ask(
        self,
        question: PredictionRequest,
        *,
        python: str = sys.executable,
        env: Mapping[str, str] | None = None,
        user: UnixUser | None = None,
    ) -> PredictionReply:
        """The predicted scaling; never raises for what is wrong with the script, but says so.

        ``env`` is all the script finds around it, our own environment if nothing is said; ``user`` is who runs it.
        """
        with acting_as(user):
            if not offers_hook(Path(question.script)):
                return PredictionReply()
        found = self._kept(question) or self._failed.get(question)
        if found is not None:
            return found
        if not self._busy.acquire(timeout=_TURN_S):
            return PredictionReply(reason="too many scripts are being looked at: its speed is measured instead")
        try:
            found = (
                self._kept(question)
                or self._failed.get(question)
                or self._made(question, python, os.environ if env is None else env, user)
            )
        finally:
            self._busy.release()
        if found.scaling is None:
            self._failed[question] = found
        return found

    def known(self, fingerprint: str, kind: str) -> Scaling | None:
        """The scaling predicted for a job, whoever asked."""
        stored = _read(self._file(fingerprint, kind))
        return stored.scaling if stored else None

    def _kept(self, question: PredictionRequest) -> PredictionReply | None:
        file = self._file(question.fingerprint, question.kind)
        stored = _read(file)
        if stored is None or stored.question != _plain(question) or _newer_profile(question, file):
            return None
        return PredictionReply(scaling=stored.scaling)

    def _made(
        self, question: PredictionRequest, python: str, env: Mapping[str, str], user: UnixUser | None
    ) -> PredictionReply:
        around = {**env, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **(user.variables if user else {})}
        with _readable_profiles(question, user) as asked:
            try:
                child = subprocess.Popen(
                    [python, "-m", __name__, json.dumps(_plain(asked)), str(os.getpid())],
                    cwd=question.working_dir or Path(question.script).parent, env=around, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                    start_new_session=True, **process_options(user),
                )  # fmt: skip
            except OSError as problem:
                return PredictionReply(reason=f"penstock_model could not be asked: {problem}")
            try:
                answer, said = child.communicate(timeout=self.limit_s)
            except subprocess.TimeoutExpired:
                _end(child)
                return PredictionReply(
                    reason=f"penstock_model was not done after {self.limit_s:g} s: its speed is measured instead"
                )
            _end(child)
        return self._keep(question, answer) or PredictionReply(reason=_complaint(child, said))

    def _keep(self, question: PredictionRequest, answer: str) -> PredictionReply | None:
        """Write down what a child said, if it is an answer."""
        try:
            said = json.loads(answer.strip().splitlines()[-1])
            scaling = _scaling(said)
        except (ValueError, KeyError, TypeError, IndexError, PenstockError):
            return None
        file = self._file(question.fingerprint, question.kind)
        file.parent.mkdir(parents=True, exist_ok=True)
        kept = {name: list(getattr(scaling, name)) for name in ("counts", "rates", "doubts")}
        write_atomically(file, json.dumps({"question": _plain(question), "answer": kept}))
        return PredictionReply(scaling=scaling)

    def _file(self, fingerprint: str, kind: str) -> Path:
        return self.folder / fingerprint / f"{kind.replace('/', '_')}.json"


def counts_up_to(most: int) -> tuple[int, ...]:
    """Powers of two and the largest."""
    return tuple(sorted({*(1 << power for power in range(most.bit_length())), most}))


def _complaint(child: "subprocess.Popen[str]", said: str) -> str:
    words = said.strip().splitlines() or [f"the script ended with status {child.returncode}"]
    return f"penstock_model could not be followed: {words[-1]}"


@contextlib.contextmanager
def _readable_profiles(question: PredictionRequest, user: UnixUser | None) -> Iterator[PredictionRequest]:
    """The question with a copy of the profiles that the user can read: where the server keeps them nobody else may."""
    if user is None:
        yield question
        return
    with tempfile.TemporaryDirectory(prefix="penstock-profiles-") as folder:
        copy = Path(folder) / "profiles"
        if Path(question.profiles).is_dir():
            shutil.copytree(question.profiles, copy)
        for path in (Path(folder), *Path(folder).rglob("*")):
            os.chown(path, user.uid, user.gid)
        yield replace(question, profiles=str(copy))


def _end(child: "subprocess.Popen[str]") -> None:
    """The child and whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    if child.returncode is None:
        child.communicate()


def _plain(question: PredictionRequest) -> dict[str, object]:
    return asdict(question) | {"counts": list(question.counts)}


def _newer_profile(question: PredictionRequest, file: Path) -> bool:
    """Whether the device was measured again since."""
    made_at = file.stat().st_mtime
    return any(each.stat().st_mtime > made_at for each in Path(question.profiles).glob("*/profile.json"))


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a child wrote: the question as it was asked, and the answer."""

    question: dict[str, object]
    scaling: Scaling


def _read(file: Path) -> _Stored | None:
    """None where there is no file, or one that no child of ours wrote to its end."""
    try:
        written = json.loads(file.read_text())
        return _Stored(written["question"], _scaling(written["answer"]))
    except (OSError, ValueError, KeyError, TypeError, PenstockError):
        return None


def _scaling(answer: Mapping[str, Sequence[float]]) -> Scaling:
    return Scaling(
        counts=tuple(map(int, answer["counts"])), rates=tuple(map(float, answer["rates"])),
        doubts=tuple(map(float, answer["doubts"])), source=Source.PREDICTED,
    )  # fmt: skip


def _answer(question: PredictionRequest) -> Curve | None:
    folders = (Path(question.profiles),)
    return predict_curve(
        question.script, question.batch, device=profile_for(question.kind, folders), kind=question.kind,
        counts=question.counts, folders=folders, threads=question.threads,
    )  # fmt: skip


def main(asked: str, parent: int) -> None:
    """In the child: answer one question on standard output, or say on the last line of the other what is wrong.

    What the script prints is not our answer, so it prints nowhere.
    """
    die_with_parent(parent)
    told = json.loads(asked)
    question = PredictionRequest(**{**told, "counts": tuple(told["counts"])})
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            curve = _answer(question)
            if curve is None:
                raise CurveError("a script without penstock_model", "def penstock_model(batch)")
        except PenstockError as problem:
            sys.exit(" ".join(str(problem).split()))
        scaling = curve.scalings[0][1]
        answer = {"counts": scaling.counts, "rates": scaling.rates, "doubts": scaling.doubts}
        answers.write(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
