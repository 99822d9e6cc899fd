"""State that outlives processes: taken apart, staged in host memory, written whole or not at all."""
