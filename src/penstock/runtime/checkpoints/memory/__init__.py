"""State in host memory: the arena that snapshots are copied into, kept beyond processes, held by peers, cut anew."""
