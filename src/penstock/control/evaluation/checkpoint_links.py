"""Keeps a checkpoint for its evaluation, although the job that saved it may remove it: by further names of its files.

A link takes no room and no time, and nobody can write into the checkpoint by it who could not before. Only what lies in
the job's own directory is linked, as the job's user, and only where jobs run on this machine; everywhere else an
evaluation reads the checkpoint where it was saved, as long as it is there.
"""

import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from penstock.control.state.evaluations import evaluated_job
from penstock.control.state.records import JobRecord
from penstock.core import is_url
from penstock.tools import UnixUser, acting_as, remove_tree

_log = logging.getLogger(__name__)
_FOLDER = "checkpoint"
_MANIFEST = ".json"
_MOST_FILES = 10_000
_DEEPEST = 32


class CheckpointLinks:
    """Links below ``root``, which has a directory for each job."""

    def __init__(self, root: Path, user_of: Callable[[str], UnixUser | None] = lambda _: None) -> None:
        self._root = root
        self._user_of = user_of
        self._linked: set[str] | None = None

    def keep(self, record: JobRecord, checkpoint: str, evaluation: str) -> str:
        """Where the evaluation finds the checkpoint of a job: at its link, or where it is."""
        source, own = Path(checkpoint), Path(record.recipe.checkpoint_dir)
        if is_url(checkpoint) or is_url(str(own)) or not _is_inside(source, own):
            return checkpoint
        user, home = self._user_of(record.job.tenant), self._root / evaluation
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            if user is not None:
                os.chown(home, user.uid, user.gid)
            with acting_as(user):
                (home / _FOLDER).mkdir(exist_ok=True)
                _link(source, home / _FOLDER / source.name)
                manifest = source.with_suffix(_MANIFEST)
                if source.is_dir() and manifest.is_file():
                    _link(manifest, home / _FOLDER / manifest.name)
        except OSError as error:
            _log.info("checkpoint %s is evaluated where it lies: %s", checkpoint, error)
            self._remove(home / _FOLDER, user)
            return checkpoint
        self._known().add(evaluation)
        return str(home / _FOLDER / source.name)

    def release(self, needed: Callable[[str], bool]) -> None:
        """Remove the links of evaluations that are over; those of an earlier server too."""
        known = self._known()
        for evaluation in [each for each in known if not needed(each)]:
            self._remove(self._root / evaluation / _FOLDER, None)
            known.discard(evaluation)

    def _known(self) -> set[str]:
        if self._linked is None:
            found: Iterable[Path] = self._root.glob(f"e-*/{_FOLDER}") if self._root.is_dir() else ()
            self._linked = {each.parent.name for each in found if evaluated_job(each.parent.name) is not None}
        return self._linked

    def _remove(self, folder: Path, user: UnixUser | None) -> None:
        with acting_as(user), suppress(OSError):
            remove_tree(folder)


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a path leads into a directory without a link on the way there from it."""
    try:
        return path.resolve(strict=True) == folder.resolve(strict=True) / path.relative_to(folder) and path != folder
    except (OSError, ValueError):
        return False


def _link(source: Path, target: Path) -> None:
    """Another name for a file, or for every file below a directory; links that are there stay links."""
    if not source.is_dir():
        with suppress(FileExistsError):
            os.link(source, target, follow_symlinks=False)
        return
    linked = 0
    for folder, _, files in os.walk(source):
        inside = Path(folder).relative_to(source)
        if len(inside.parts) > _DEEPEST:
            raise OSError(f"directories more than {_DEEPEST} deep")
        here = target / inside
        here.mkdir(exist_ok=True)
        for name in files:
            linked += 1
            if linked > _MOST_FILES:
                raise OSError(f"more than {_MOST_FILES} files")
            with suppress(FileExistsError):
                os.link(Path(folder, name), here / name, follow_symlinks=False)
