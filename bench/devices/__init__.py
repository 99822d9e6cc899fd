"""Devices nobody profiled: how far off a prediction from a data sheet is, and how often its bar tells the truth."""
