"""The truth about the platform: the log, its entries, the state they add up to, and where both are kept."""
