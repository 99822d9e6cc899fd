"""From records to models: kernels, host costs, memory, power, and the device profile that holds them."""
