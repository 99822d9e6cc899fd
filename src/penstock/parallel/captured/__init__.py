"""Any PyTorch model as a chain of operators: what it runs is captured, what that takes is predicted kernel by kernel.

PyTorch is needed to follow a model, so nothing here is imported before someone names one.
"""

from penstock.parallel.captured.family import ModuleFamily, is_module, module_family
from penstock.parallel.captured.table_maker import ModuleTables

__all__ = ["ModuleFamily", "ModuleTables", "is_module", "module_family"]
