"""Networks of many kinds in plain PyTorch, as people write them; none of them is in the zoo or was learned from."""
