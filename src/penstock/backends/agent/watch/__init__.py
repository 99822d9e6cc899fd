"""What an agent sees in its workers while they train: silence, stacks, and who is slower than the others."""
