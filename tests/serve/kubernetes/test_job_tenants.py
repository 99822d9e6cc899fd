"""Whose job an object is, by its namespace and, among the tenants of that, by its label."""

import pytest

from penstock.core import InputError
from penstock.serve.kubernetes.job_tenants import JobTenants


def about(namespace: str, tenant: str = "") -> dict[str, object]:
    return {"namespace": namespace, "labels": {"penstock.dev/tenant": tenant} if tenant else {}}


def test_without_settings_the_servers_own_namespace_is_the_default_tenant() -> None:
    tenants = JobTenants.of({}, "penstock")
    assert tenants.namespaces == ("penstock",)
    assert tenants.tenant_of(about("penstock")) == "default"
    assert tenants.tenant_of(about("penstock", "default")) == "default"


def test_a_label_chooses_among_the_tenants_of_its_namespace() -> None:
    tenants = JobTenants.of({"vision": "ann", "shared": ["ann", "bob"]}, "penstock")
    assert tenants.namespaces == ("vision", "shared")
    assert tenants.tenant_of(about("vision")) == "ann"
    assert tenants.tenant_of(about("shared")) == "ann"
    assert tenants.tenant_of(about("shared", "bob")) == "bob"


@pytest.mark.parametrize(("namespace", "tenant"), [("vision", "bob"), ("penstock", ""), ("penstock", "ann")])
def test_what_the_settings_do_not_say_is_refused(namespace: str, tenant: str) -> None:
    with pytest.raises(InputError, match="tenant"):
        JobTenants.of({"vision": "ann"}, "penstock").tenant_of(about(namespace, tenant))
