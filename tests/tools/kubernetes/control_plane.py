"""The control plane that all tests of a run share: started by the first that asks, ended with the run.

Its processes carry the mark of the test run, so that the guard of ``tests/tools/processes.py`` ends them.
"""

import fcntl
import importlib.util
import json
import os
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.tools import needs
from tests.tools.kubernetes.rest import Rest
from tests.tools.ports import free_port

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
PLACE = "PENSTOCK_KUBERNETES"
START_S = 120.0
NODE_GRACE_S = 5
"""How long a node may be silent before the cluster calls it lost."""
_TOKEN = "token-of-the-tests"
_CONTROLLERS = (
    "namespace", "serviceaccount", "serviceaccount-token", "garbagecollector", "nodelifecycle", "podgc", "deployment",
    "replicaset", "disruption",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """Where it is and how to get in as its administrator."""

    directory: str
    url: str
    authority: str
    kubelet_certificate: str
    token: str = _TOKEN

    @property
    def kubeconfig(self) -> Path:
        return Path(self.directory) / "kubeconfig"

    def rest(self, patience_s: float = 0.0) -> Rest:
        return Rest(self.url, self.token, self.authority, patience_s)

    def restart_api_server(self, away_s: float) -> None:
        """Kill it, and start it again with the same words after a while."""
        found = next(one for one in psutil.process_iter(["cmdline"]) if self._is_api_server(one))
        words = found.info["cmdline"]
        found.kill()
        time.sleep(away_s)
        _spawn(Path(words[0]).parent, Path(self.directory), "kube-apiserver", *words[1:])
        _await_ready(self)

    def _is_api_server(self, process: psutil.Process) -> bool:
        words = process.info["cmdline"] or [""]
        return words[0].endswith("/kube-apiserver") and any(self.directory in word for word in words)


def programs_place() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(PLACE) or cache / "penstock" / "kubernetes")


def require_programs() -> Path:
    """Where the programs are; without them or a client a test is skipped, or fails where they are required."""
    place = programs_place()
    if not all(os.access(place / program, os.X_OK) for program in PROGRAMS):
        needs.missing_engine(f"there is no Kubernetes control plane in {place}", needs.KUBERNETES)
    if importlib.util.find_spec("kubernetes") is None:
        needs.missing_engine("there is no client for Kubernetes", needs.PACKAGES)
    return place


def shared_control_plane(directory: Path, node_grace_s: int = NODE_GRACE_S) -> ControlPlane:
    """The one of this test run, ready to be asked; all of its processes name the same directory."""
    programs = require_programs()
    directory.mkdir(mode=0o700, exist_ok=True)
    described = directory / "control-plane.json"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not described.exists():
            found = _start(programs, directory, node_grace_s)
            described.write_text(json.dumps(asdict(found)))
    return ControlPlane(**json.loads(described.read_text()))


def _start(programs: Path, directory: Path, node_grace_s: int) -> ControlPlane:
    port, etcd, peers = free_port(), free_port(), free_port()
    url = f"https://127.0.0.1:{port}"
    authority, certificate, key = _certificates(directory)
    plane = ControlPlane(directory=str(directory), url=url, authority=authority, kubelet_certificate=certificate)
    (directory / "tokens.csv").write_text(f'{_TOKEN},admin,admin,"system:masters"\n')
    _write_kubeconfig(plane)
    _spawn(
        programs, directory, "etcd", f"--data-dir={directory}/etcd", f"--listen-client-urls=http://127.0.0.1:{etcd}",
        f"--advertise-client-urls=http://127.0.0.1:{etcd}", f"--listen-peer-urls=http://127.0.0.1:{peers}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}", f"--initial-cluster=default=http://127.0.0.1:{peers}",
        "--unsafe-no-fsync", "--log-level=error",
    )  # fmt: skip
    _spawn(
        programs, directory, "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}", f"--secure-port={port}",
        "--bind-address=127.0.0.1", f"--tls-cert-file={certificate}", f"--tls-private-key-file={certificate}",
        f"--client-ca-file={authority}", f"--token-auth-file={directory}/tokens.csv", "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
        f"--kubelet-certificate-authority={authority}", "--kubelet-preferred-address-types=InternalIP",
        "--endpoint-reconciler-type=none", "--allow-privileged=true", "--profiling=false",
    )  # fmt: skip
    _await_ready(plane)
    around = (f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false", "--port=0", "--secure-port=0")
    _spawn(
        programs, directory, "kube-controller-manager", *around, f"--controllers={','.join(_CONTROLLERS)}",
        f"--service-account-private-key-file={key}", "--node-monitor-period=500ms",
        f"--node-monitor-grace-period={node_grace_s}s", f"--node-startup-grace-period={2 * node_grace_s}s",
    )  # fmt: skip
    _spawn(programs, directory, "kube-scheduler", *around)
    return plane


def _spawn(programs: Path, directory: Path, name: str, *flags: str) -> None:
    """Detached: all processes of a test run use it, and the guard ends it."""
    with (directory / f"{name}.log").open("ab") as log:
        subprocess.run(
            ["setsid", "--fork", str(programs / name), *flags], cwd=directory, stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, env={**os.environ, "GOMAXPROCS": "2"}, check=True,
        )  # fmt: skip


def _await_ready(plane: ControlPlane) -> None:
    rest, deadline = plane.rest(), time.monotonic() + START_S
    while not rest.is_ready():
        if time.monotonic() > deadline:
            log = Path(plane.directory) / "kube-apiserver.log"
            raise AssertionError(f"the API server was not ready within {START_S:g} s: {log.read_text()[-2000:]}")
        time.sleep(0.1)


def _certificates(directory: Path) -> tuple[str, str, str]:
    """Paths: the authority, the certificate of all servers with its key, and the key of service account tokens."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    certificate, root, key = (directory / name for name in ("server.pem", "authority.pem", "accounts.key"))
    issued.private_key_and_cert_chain_pem.write_to_path(certificate)
    authority.cert_pem.write_to_path(root)
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key.write_bytes(
        made.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return str(root), str(certificate), str(key)


def _write_kubeconfig(plane: ControlPlane) -> None:
    said = {
        "apiVersion": "v1", "kind": "Config", "current-context": "tests",
        "clusters": [{"name": "tests", "cluster": {"server": plane.url, "certificate-authority": plane.authority}}],
        "users": [{"name": "admin", "user": {"token": plane.token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
    }  # fmt: skip
    plane.kubeconfig.write_text(json.dumps(said))
