"""Telling people what became of their jobs and promises: by webhook, in a chat, by e-mail."""
