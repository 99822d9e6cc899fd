"""The checkpoints among a job's files: those with a manifest, checked against it, and what other scripts saved.

``penstock.elastic`` writes a directory ``step-…`` and then a manifest beside it with the length and checksum of every
file. Other scripts save as they like; what lies on top of their directory is listed, with the step in its name.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime

from penstock.control.platform.job_files import FilePlaces, list_files, open_file
from penstock.control.state.records import JobRecord
from penstock.core import PenstockError, clean_text
from penstock.runtime import UNREADABLE, Manifest, format_problem, snapshots_in
from penstock.tools import acting_as
from penstock.wire import CheckpointList, CheckpointView, FileView, UnavailableError

_MANIFEST = re.compile(r"step-\d{10}\.json")
_ASIDE = re.compile(rf"{UNREADABLE}step-\d{{10}}\.json")
_STEP = re.compile(r"(\d{1,15})(?:\.[A-Za-z]\w*)*$")
_MOST_READ = 1 << 25
"""Bytes of all manifests that are read for one answer, the newest first."""
_LONGEST_PROBLEM = 300


def list_checkpoints(places: FilePlaces, record: JobRecord, verify: Callable[[], None] | None = None) -> CheckpointList:
    """The newest step first. Lengths are compared always, checksums if ``verify`` is given.

    It is called between the pieces that are read, and raises what ends the verification early.
    """
    listing = list_files(places, record)
    files = {file.path: file for file in listing.files}
    sizes = Counter[str]()
    for path, file in files.items():
        sizes[path.partition("/")[0]] += file.bytes
    manifests = sorted((path for path in files if _MANIFEST.fullmatch(path)), reverse=True)
    owned = {name for path in manifests for name in (path, path.removesuffix(".json"))}
    found, left = [], _MOST_READ
    for path in manifests:
        found.append(_checked(places, record, path, files, sizes, most=left, verify=verify))
        left = max(0, left - files[path].bytes)
    found += [_unchecked(file, sizes) for path, file in files.items() if path not in owned and _may_be_one(path)]
    found += _in_memory(places, record)
    found.sort(key=lambda each: (-1 if each.step is None else each.step, each.saved_at), reverse=True)
    return CheckpointList(place=listing.place, checkpoints=found)


def _in_memory(places: FilePlaces, record: JobRecord) -> list[CheckpointView]:
    """Snapshots that the run keeps between checkpoints."""
    place = places.memory_of(record.run_id)
    if place is None:
        return []
    with acting_as(places.user_of(record.job.tenant)):
        return [
            CheckpointView(
                path=str(place), bytes=each.bytes, saved_at=datetime.fromtimestamp(each.made_at, UTC), step=each.step,
                state="whole" if each.is_whole else "damaged", where="memory",
                problem="" if each.is_whole else f"{each.held} of {each.size} shards are on this machine",
            )
            for each in snapshots_in(place)
        ]  # fmt: skip


def _may_be_one(path: str) -> bool:
    """Names with a dot in front are drafts and marks of a script; a manifest that was set aside is no checkpoint."""
    return "/" not in path and not path.startswith(".") and not _ASIDE.fullmatch(path)


def _checked(
    places: FilePlaces,
    record: JobRecord,
    path: str,
    files: Mapping[str, FileView],
    sizes: Mapping[str, int],
    *,
    most: int,
    verify: Callable[[], None] | None,
) -> CheckpointView:
    """A checkpoint with a manifest, of which up to ``most`` bytes are read."""
    directory = path.removesuffix(".json")
    verified_at, problem = None, ""
    try:
        manifest = _read_manifest(places, record, path, most)
        verified_at = None if manifest.verified_at is None else datetime.fromtimestamp(manifest.verified_at, UTC)
        problem = _problem(places, record, path, files, manifest, verify)
    except UnavailableError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError, PenstockError) as error:
        problem = f"its manifest cannot be read: {error}"
    return CheckpointView(
        path=directory, bytes=sizes[directory] + files[path].bytes, saved_at=files[path].changed_at,
        step=int(directory.removeprefix("step-")), state="damaged" if problem else "whole",
        problem=clean_text(problem[:_LONGEST_PROBLEM]), verified_at=None if problem else verified_at,
    )  # fmt: skip


def _problem(
    places: FilePlaces,
    record: JobRecord,
    path: str,
    files: Mapping[str, FileView],
    manifest: Manifest,
    verify: Callable[[], None] | None,
) -> str:
    """What differs from the manifest; nothing if nothing does."""
    if problem := format_problem(manifest.sizes):
        return problem
    for expected in manifest.files:
        name = f"{path.removesuffix('.json')}/{expected.name}"
        if name not in files or files[name].kind != "file":
            return f"{expected.name} is missing"
        if files[name].bytes != expected.bytes:
            return f"{expected.name} has {files[name].bytes} bytes, not {expected.bytes}"
        if verify is not None and _sum(places, record, name, verify) != expected.sha256:
            return f"{expected.name} differs from what was written"
    return ""


def _read_manifest(places: FilePlaces, record: JobRecord, path: str, most: int) -> Manifest:
    with closing(opened := open_file(places, record, path)):
        if opened.size > most:
            raise ValueError(f"it has {opened.size} bytes, and of all manifests {_MOST_READ} are read")
        return Manifest.parse(b"".join(opened.chunks).decode())


def _sum(places: FilePlaces, record: JobRecord, path: str, verify: Callable[[], None]) -> str:
    digest = hashlib.sha256()
    with closing(open_file(places, record, path)) as opened:
        for chunk in opened.chunks:
            verify()
            digest.update(chunk)
    return digest.hexdigest()


def _unchecked(file: FileView, sizes: Mapping[str, int]) -> CheckpointView:
    step = _STEP.search(os.path.basename(file.path))
    aside = file.path.startswith(UNREADABLE)
    return CheckpointView(
        path=file.path, bytes=sizes[file.path], saved_at=file.changed_at, step=int(step[1]) if step else None,
        state="damaged" if aside else "unchecked", problem="unreadable, set aside" if aside else "",
    )  # fmt: skip
