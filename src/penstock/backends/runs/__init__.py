"""One detached agent beside the server for each run, files and a socket between the two, for every backend.

The server may die at any moment and a later one finds every run again, because nothing about a run lives in the
server's memory: what to run is in ``launch.json``, what happened in ``reports.jsonl``, and whether the agent lives is
told by a lock that the kernel takes back when it does not.
"""
