"""What entries about tenants do to the state: the scheduler knows what each may have."""

from penstock.control.state.entries import TenantConfigured, TenantDismissed
from penstock.control.state.folded_state import FoldedState, Reducers
from penstock.core import TenantChanged, TenantRemoved


def _configured(state: FoldedState, entry: TenantConfigured) -> None:
    state.feed(TenantChanged(entry.at, entry.tenant))


def _dismissed(state: FoldedState, entry: TenantDismissed) -> None:
    state.feed(TenantRemoved(entry.at, entry.name))


TENANT_REDUCERS: Reducers = {
    TenantConfigured: _configured,
    TenantDismissed: _dismissed,
}
