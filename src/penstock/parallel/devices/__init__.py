"""The devices a plan is made for: a mesh, bare for searches, with chips and links by name, and with prices of work."""

from penstock.parallel.devices.chip_mesh import USABLE, ChipMesh
from penstock.parallel.devices.grammar import mesh_from_file, mesh_named
from penstock.parallel.devices.mesh import MB, STAGE_DEVICES, Mesh
from penstock.parallel.devices.priced_mesh import EAGER, PricedMesh, Trainer

__all__ = [
    "EAGER",
    "MB",
    "STAGE_DEVICES",
    "USABLE",
    "ChipMesh",
    "Mesh",
    "PricedMesh",
    "Trainer",
    "mesh_from_file",
    "mesh_named",
]
