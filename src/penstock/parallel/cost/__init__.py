"""Cost models: what a plan takes in time and memory, by tables of operator costs."""
