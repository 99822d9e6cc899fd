"""What each kind of entry does to the state of the platform, one module for what entries are about."""

from penstock.control.state.folded_state import Reducers
from penstock.control.state.reducers.job_reducers import JOB_REDUCERS
from penstock.control.state.reducers.knowledge_reducers import KNOWLEDGE_REDUCERS
from penstock.control.state.reducers.node_reducers import NODE_REDUCERS, loss_of_node
from penstock.control.state.reducers.run_reducers import RUN_REDUCERS
from penstock.control.state.reducers.scheduler_reducers import SCHEDULER_REDUCERS
from penstock.control.state.reducers.tenant_reducers import TENANT_REDUCERS

__all__ = ["REDUCERS", "loss_of_node"]

REDUCERS: Reducers = {
    **SCHEDULER_REDUCERS,
    **JOB_REDUCERS,
    **RUN_REDUCERS,
    **KNOWLEDGE_REDUCERS,
    **NODE_REDUCERS,
    **TENANT_REDUCERS,
}
