"""Signatures as data: what a line of a log means, in files that anybody can read and add to."""
