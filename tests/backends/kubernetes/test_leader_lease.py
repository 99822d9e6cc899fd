"""One server per namespace: a Lease of the cluster that is renewed, taken over in silence, and that fences."""

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.backends import ClusterApi, KubernetesBackend, LeaderLease, ShortageError
from penstock.backends.kubernetes import leader_lease
from penstock.backends.testing import until
from penstock.core import InputError
from tests.tools.kubernetes import ControlPlane


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    name = f"lease-{secrets.token_hex(4)}"
    control_plane.rest().post("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    control_plane.rest().delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def api(control_plane: ControlPlane) -> ClusterApi:
    return ClusterApi(kubeconfig=str(control_plane.kubeconfig))


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that last two seconds."""
    monkeypatch.setattr(leader_lease, "RENEW_S", 0.1)
    monkeypatch.setattr(leader_lease, "LEASE_S", 2.0)


@pytest.mark.usefixtures("brief")
def test_a_second_server_is_refused_until_the_first_has_left(api: ClusterApi, namespace: str) -> None:
    first, second = LeaderLease(api, namespace, "host /one"), LeaderLease(api, namespace, "host /two")
    with first.kept():
        first.check()
        with pytest.raises(InputError, match=r"another Penstock server uses namespace .* \(host /one\)"):
            second.claim()
        with pytest.raises(ShortageError):
            second.check()
    second.claim()
    second.check()
    with pytest.raises(ShortageError):
        first.check()


@pytest.mark.usefixtures("brief")
def test_one_that_is_silent_is_replaced_and_fenced(api: ClusterApi, namespace: str, tmp_path: Path) -> None:
    stopped, successor = LeaderLease(api, namespace, "host /one"), LeaderLease(api, namespace, "host /two")
    stopped.claim()
    successor.claim()
    with pytest.raises(ShortageError, match="has claimed namespace"):
        stopped.renew()
    assert stopped.lost
    stopped.release()
    successor.renew()
    successor.check()
    held = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/penstock")["spec"]
    assert (held["holderIdentity"], held["leaseTransitions"]) == ("host /two", 1)
    backend = KubernetesBackend.__new__(KubernetesBackend)
    backend._permit = stopped.check
    for act in (lambda: backend.stop("run", 0.0), lambda: backend.suspend("run"), lambda: backend.resize("run", (), 1)):
        with pytest.raises(ShortageError):
            act()


def test_a_holder_that_cannot_renew_stops_before_anybody_may_follow(api: ClusterApi, namespace: str) -> None:
    moment = [100.0]
    lease = LeaderLease(api, namespace, "host /one", monotonic=lambda: moment[0])
    lease.claim()
    moment[0] += 0.7 * leader_lease.LEASE_S
    lease.check()
    moment[0] += 0.2 * leader_lease.LEASE_S
    with pytest.raises(ShortageError, match="could not be renewed"):
        lease.check()
    assert not lease.lost
    lease.renew()
    lease.check()


@pytest.mark.usefixtures("brief")
def test_of_many_who_claim_at_once_one_holds_it(api: ClusterApi, namespace: str) -> None:
    held: list[str] = []

    def claim(name: str) -> None:
        lease = LeaderLease(api, namespace, name)
        try:
            with lease.kept():
                held.append(name)
                until(lambda: len(held) + len(refused) == 4, "all to have tried")
        except InputError:
            refused.append(name)

    refused: list[str] = []
    threads = [threading.Thread(target=claim, args=(f"host /{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(refused)) == (1, 3)
