"""Networks run for real: how long their iterations and kernels take, and what they draw."""
