"""Training data as packed tokens: how it lies on disk (``storage``), how it gets there (``packing``) and how a loop
reads it at the speed of memory, in one order for any number of ranks (``reading``). Only the last needs PyTorch, and
only where tensors are asked for; ``penstock.data`` is the name scripts use.
"""
