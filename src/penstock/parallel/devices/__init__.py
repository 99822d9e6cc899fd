"""The devices a plan is made for: how many there are, what connects them, and how the trainer behaves on them."""
