"""The process beside a run: it starts the workers, listens to them and to servers, and writes down what happens.

``python -m penstock.backends.runs.agent RUN_DIR`` runs in the foreground; with ``--detach`` it lives in its own
session and outlasts whoever started it. One thread, one event loop; no torch. All decisions are the
:class:`~penstock.backends.agent.supervisor.Supervisor`'s; this carries them out. With ``--run-as USER`` the workers are
that user's processes and the agent stays whose it is: they can neither read what it writes nor tell it more than the
protocol knows.
"""
