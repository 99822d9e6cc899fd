"""The names of the replicas, known without loading them."""

_SOURCE = "github.com/pkusys/ElasticFlow"

REPLICAS: dict[str, tuple[str, str]] = {
    "elasticflow-artifact": ("ElasticFlow as the public simulator runs it", _SOURCE),
    "edf-artifact": ("earliest deadline first as the public simulator runs it", _SOURCE),
    "edf-admission-artifact": ("EDF with admission as the public simulator runs it", _SOURCE),
    "tiresias-artifact": ("Tiresias (2D-LAS) as the public simulator runs it", _SOURCE),
    "gandiva-artifact": ("Gandiva as the public simulator runs it", _SOURCE),
}
"""Summary and source of every replica."""
