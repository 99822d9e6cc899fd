"""How packed tokens lie on disk: shards with their indexes and checksums, and one manifest that makes them a set."""
