"""One of two processes in a group: rank 1 does what its case says, rank 0 waits for it in a collective."""

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

case, rank, store = sys.argv[1], int(sys.argv[2]), sys.argv[3]
limit = timedelta(seconds=3 if case == "stuck" else 60)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=limit)
dist.all_reduce(torch.ones(1))
if rank == 1:
    match case:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "script_error":
            {}["weights"]
        case "stuck":
            signal.sigtimedwait([signal.SIGUSR1], 8)
            os._exit(0)
dist.all_reduce(torch.ones(1_000 if case == "other_size" and rank else 10))
