"""One container of a pod as a local process: its environment, files, output, signals and end.

There is no image and no mount: a container sees this machine's files, and where a variable or an argument begins with
the path of a mounted secret or empty volume, it gets the path below the pod's own directory instead. Users and security
contexts are not obeyed.
"""

import base64
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.tools.processes import MARK

Manifest = dict[str, Any]
Lookup = Callable[[str, str], Manifest | None]
"""A secret or config map by its kind's path ("secrets", "configmaps") and name, in the pod's namespace."""

_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 10**3, "M": 10**6, "G": 10**9}


class MissingError(Exception):
    """A secret or config map is not there: the container waits for it."""


class Container:
    """What a pod says of a container, and the process it is."""

    def __init__(
        self, pod: Manifest, spec: Manifest, directory: Path, devices: Mapping[str, str], before: Sequence[str] = ()
    ) -> None:
        self.name: str = spec["name"]
        self._pod = pod
        self._spec = spec
        self._directory = directory
        self._devices = devices
        self._before = before
        self.log = directory / f"{self.name}.log"
        self.restarts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.out_of_memory = False

    def start(self, lookup: Lookup) -> None:
        mounts = self._mounts(lookup)
        env = {**self._around(), **self._variables(lookup, mounts), **self._devices}
        words = [*self._spec.get("command", ()), *self._spec.get("args", ())]
        argv = [_REFERENCE.sub(lambda found: env.get(found[1], found[0]), _moved(word, mounts)) for word in words]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._before, *argv], env=env, cwd=self._spec.get("workingDir") or "/", stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def signal(self, number: int) -> None:
        if self.process is not None and self.process.returncode is None:
            if number == signal.SIGKILL:
                self._kill_all()
            else:
                self.process.send_signal(number)

    def poll(self) -> int | None:
        """The exit code as a runtime tells it, once the process has ended; what it left behind goes with it."""
        if self.process is None:
            return None
        self._watch_memory()
        code = self.process.poll()
        if code is None:
            return None
        self._kill_all()
        return code if code >= 0 else 128 - code

    def _kill_all(self) -> None:
        assert self.process is not None
        for one in (*_below(self.process.pid), self.process.pid):
            _kill(one)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _watch_memory(self) -> None:
        limit = self._spec.get("resources", {}).get("limits", {}).get("memory")
        if limit and self.process and self.process.poll() is None and _memory(self.process.pid) > _bytes(limit):
            self.out_of_memory = True
            self._kill_all()

    def _around(self) -> dict[str, str]:
        """What an image brings; and the mark by which the tests end what they have started."""
        return {
            name: os.environ[name] for name in ("PATH", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR", MARK) if name in os.environ
        } | {"HOME": str(self._directory)}

    def _variables(self, lookup: Lookup, mounts: Mapping[str, Path]) -> dict[str, str]:
        found: dict[str, str] = {}
        for one in self._spec.get("env", ()):
            if "valueFrom" in one:
                found[one["name"]] = self._from(one["valueFrom"], lookup)
            else:
                text = _REFERENCE.sub(lambda name: found.get(name[1], name[0]), one.get("value", ""))
                found[one["name"]] = _moved(text, mounts)
        return found

    def _from(self, source: Manifest, lookup: Lookup) -> str:
        if reference := source.get("secretKeyRef"):
            return _key(lookup("secrets", reference["name"]), reference).decode()
        if reference := source.get("fieldRef"):
            return self._field(reference["fieldPath"])
        raise MissingError(f"a variable from {source}")

    def _field(self, path: str) -> str:
        known = {
            "metadata.name": self._pod["metadata"]["name"], "metadata.namespace": self._pod["metadata"]["namespace"],
            "metadata.uid": self._pod["metadata"]["uid"], "spec.nodeName": self._pod["spec"]["nodeName"],
            "status.podIP": "127.0.0.1", "status.hostIP": "127.0.0.1",
        }  # fmt: skip
        return str(known[path])

    def _mounts(self, lookup: Lookup) -> dict[str, Path]:
        volumes = {volume["name"]: volume for volume in self._pod["spec"].get("volumes", ())}
        found: dict[str, Path] = {}
        for mount in self._spec.get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            if "hostPath" in volume:
                found[mount["mountPath"]] = Path(volume["hostPath"]["path"])
            else:
                place = self._directory / "volumes" / mount["name"]
                place.mkdir(parents=True, exist_ok=True)
                found[mount["mountPath"]] = place
                self._fill(place, volume, lookup)
        return found

    @staticmethod
    def _fill(place: Path, volume: Manifest, lookup: Lookup) -> None:
        if wanted := volume.get("secret"):
            stored = lookup("secrets", wanted["secretName"])
            if stored is None:
                raise MissingError(f'MountVolume.SetUp failed: secret "{wanted["secretName"]}" not found')
            for name, value in (stored.get("data") or {}).items():
                path = place / name
                path.unlink(missing_ok=True)
                path.write_bytes(base64.b64decode(value))
                path.chmod(wanted.get("defaultMode", 0o644))


def _moved(text: str, mounts: Mapping[str, Path]) -> str:
    for mounted, place in mounts.items():
        if text == mounted or text.startswith(mounted.rstrip("/") + "/"):
            return str(place) + text[len(mounted.rstrip("/")) :]
    return text


def _key(stored: Manifest | None, reference: Manifest) -> bytes:
    if stored is None or reference["key"] not in (stored.get("data") or {}):
        raise MissingError(f'secret "{reference["name"]}" not found')
    return base64.b64decode(stored["data"][reference["key"]])


def _below(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _memory(pid: int) -> int:
    total = 0
    for one in (pid, *_below(pid)):
        try:
            total += psutil.Process(one).memory_info().rss
        except psutil.Error:
            continue
    return total


def _bytes(quantity: str) -> int:
    number = quantity.rstrip("KMGik")
    return int(float(number) * _UNITS.get(quantity[len(number) :], 1))
