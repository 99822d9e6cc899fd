"""Policies of the literature, one module each: what each is compared with, and what a cluster may run instead."""
