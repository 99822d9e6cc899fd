"""Jobs as pods of a Kubernetes cluster: one agent beside the server for each run, one pod for each of its workers.

Needs the extra ``kubernetes``. The cluster is followed by watches, never polled; what it says of a pod that cannot run
reaches the job's owner in its own words.
"""

from penstock.backends.kubernetes.backend import KubernetesBackend
from penstock.backends.kubernetes.cluster_api import ClusterApi, ClusterApiError
from penstock.backends.kubernetes.leader_lease import LeaderLease
from penstock.backends.kubernetes.object_watch import ObjectWatch
from penstock.backends.kubernetes.settings import KubernetesSettings

__all__ = ["ClusterApi", "ClusterApiError", "KubernetesBackend", "KubernetesSettings", "LeaderLease", "ObjectWatch"]
