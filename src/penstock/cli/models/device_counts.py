"""Device counts as people type them: ``1,2,4,8``."""

from penstock.core import InputError


def device_counts(text: str) -> list[int]:
    """The counts in the order they were given; something that is no number refuses them all."""
    try:
        counts = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        counts = []
    if not counts:
        raise InputError(f"device counts {text!r}", "whole numbers, separated by commas", 'Try "1,2,4,8"')
    return counts
