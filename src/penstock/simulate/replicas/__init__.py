"""Public simulators rebuilt to replicate published figures; the live platform cannot select any of them."""
