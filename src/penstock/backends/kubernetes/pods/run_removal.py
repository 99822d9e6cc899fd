"""The end of everything a run has in a cluster: pods that end in order, and those that cannot any more.

A pod is gone when its node has confirmed that, which takes a second of grace at least; deleted without any, it would
vanish from the list while its processes still run. Only the pods of a lost node, which confirms nothing, are removed
like that.
"""

from penstock.backends.kubernetes.cluster_api import ClusterApi, Manifest
from penstock.backends.kubernetes.pods.pod_condition import node_fault
from penstock.backends.kubernetes.pods.pod_manifest import RunOwner

SHORTEST_GRACE_S = 1.0


def remove_run(api: ClusterApi, owner: RunOwner) -> bool:
    """Ask for the end of what is left of a run; whether nothing is."""
    base = f"/api/v1/namespaces/{owner.namespace}"
    pods = api.get(f"{base}/pods", {"labelSelector": owner.selector})["items"]
    for pod in pods:
        path = f"{base}/pods/{pod['metadata']['name']}"
        if "deletionTimestamp" not in pod["metadata"]:
            api.delete(path, SHORTEST_GRACE_S)
        elif _is_lost(api, pod):
            api.delete(path, 0.0)
    if not pods:
        api.delete(f"{base}/secrets/{owner.name}")
    return not pods


def _is_lost(api: ClusterApi, pod: Manifest) -> bool:
    host = pod["spec"].get("nodeName", "")
    return not host or bool(node_fault(api.find(f"/api/v1/nodes/{host}")))
