"""Penstock inside of a Kubernetes cluster: the manifests of an installation, and jobs as objects of the cluster."""
