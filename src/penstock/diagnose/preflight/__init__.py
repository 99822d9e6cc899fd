"""Is this node fit for work? Checks of one node, of pairs of nodes, and their report.

``python -m penstock.diagnose.preflight --json`` is the check of one node with nothing but Python and NumPy; what needs
PyTorch is left out, and says so, where there is none.
"""
