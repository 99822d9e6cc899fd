"""Verbs about models: how to split them, how fast they run, how this device measures up."""
