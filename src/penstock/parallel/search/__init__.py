"""Searches for a plan: a uniform grid, Aceso's hill climbing as published, and our anytime search with a bound."""
