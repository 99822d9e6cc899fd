"""Strangers: networks of many kinds that no profile has learned from, and how well they are predicted.

``catalogue`` lists them, ``measure`` runs them on a device (PyTorch and NumPy are all it needs there), and
``python -m bench.strangers`` compares what was measured with what is predicted; that needs no device.
"""
