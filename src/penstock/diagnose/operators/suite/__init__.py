"""The self-test of a device: operators of training on inputs that are hard for them, held against references."""
