"""Tenants of a simulation: read from one text, refused where they contradict themselves, and kept to."""

import pytest

from penstock.core import Cluster, InputError, Tenant
from penstock.simulate import Profiles, Setting, Workload, parse_tenants, run_policy, source_named


def test_a_text_says_who_shares_what() -> None:
    assert parse_tenants("vision=2:quota=8:group=research:lending=no, nlp") == (
        Tenant(name="vision", share=2.0, quota=8, group="research", lending=False),
        Tenant(name="nlp"),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (",", "at least one"),
        ("a=1,a=2", "every one once"),
        ("a=x", "a number"),
        ("a=1:tribe=x", "tribe"),
        ("a=1:lending=maybe", "yes or no"),
        ("a=0", "positive"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_tenants(text)


def test_quotas_change_what_becomes_of_jobs_and_strangers_are_refused() -> None:
    source, cluster = source_named("generate:jobs=60,load=3,tenants=2"), Cluster.parse("1x8")
    profiles = Profiles.builtin()
    workload = Workload(trace=source.trace(None, 3, cluster, profiles), profiles=profiles, seed=3)
    names = sorted({job.tenant for job in workload.jobs()})
    bounded = run_policy("fifo", workload, Setting(cluster=cluster, tenants=parse_tenants(f"{names[0]}=1:limit=0")))
    assert {each.tenant for each in bounded.outcomes if each.device_seconds} == {names[1]}
    with pytest.raises(InputError, match="nobody"):
        run_policy("fifo", workload, Setting(cluster=cluster, tenants=parse_tenants("nobody=2")))
