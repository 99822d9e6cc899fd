"""Training loops of others: callbacks that tell their progress and metrics, and save when their devices are wanted."""
