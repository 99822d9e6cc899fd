"""What a server exposes, read back the way Prometheus reads it."""

from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.control.serving import Served


@dataclass(frozen=True)
class Exposition:
    """Samples by name and labels, and the names of all metrics."""

    samples: dict[tuple[str, frozenset[tuple[str, str]]], float]
    names: frozenset[str]

    def value(self, name: str, **labels: str) -> float:
        """One sample; 0 if there is none yet."""
        return self.samples.get((name, frozenset(labels.items())), 0.0)

    def total(self, name: str, **labels: str) -> float:
        """The sum over all labels that are not given."""
        wanted = set(labels.items())
        return sum(value for (known, found), value in self.samples.items() if known == name and wanted <= found)


def read(text: str) -> Exposition:
    samples, names = {}, set()
    for family in text_string_to_metric_families(text):
        names.add(family.name + "_total" if family.type == "counter" else family.name)
        for sample in family.samples:
            samples[sample.name, frozenset(sample.labels.items())] = sample.value
    return Exposition(samples, frozenset(names))


def metrics_token(served: Served) -> str:
    """A token that reads metrics and nothing else."""
    with served.client() as client:
        made = client.make_token(name="prometheus", tenant="default", role="admin", scope=["metrics"])
    assert made.secret is not None
    return made.secret


def scrape(http: httpx.Client) -> Exposition:
    response = http.get("/metrics")
    assert response.status_code == 200, response.text
    return read(response.text)
