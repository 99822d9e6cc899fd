"""Which reference answers for which call of PyTorch's operator library, forward and backward."""
