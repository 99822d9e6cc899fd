"""What runs inside a worker: a training loop that survives changes of its world. Needs PyTorch (``penstock[runtime]``).

``penstock.elastic`` is the name scripts use; ``penstock.runtime.zygote`` is started by the agent. Nothing is imported
here, so that the zygote's first line and the tools that only want its name stay light.
"""

__all__: list[str] = []
