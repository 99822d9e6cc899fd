"""What every backend needs beside a run, whatever it starts processes with.

:class:`~penstock.backends.agent.supervisor.Supervisor` decides what happens to the workers of one run and is told what
they do; a :class:`~penstock.backends.agent.states.RunHost` carries it out. Around it: the lines to the workers, the
journal of reports, the environment that workers see, and, for backends whose workers are processes of the agent's own
machine, the spawner with its pipes, logs and meters.
"""
