"""What a worker shares with its agent: the environment it wakes up in, the line between them, the network it uses."""
