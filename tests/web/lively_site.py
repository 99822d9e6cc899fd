"""A small platform with a bit of everything on it: jobs of two teams that run, wait, have ended and have failed."""

from pathlib import Path
from typing import Any

from tests.live.site import until
from tests.web.site import WebSite

_TRAIN = """
import math, sys, time
from data import batches

steps, pause = int(sys.argv[1]), float(sys.argv[2])
print("INFO loading the data set", flush=True)
for step in batches(steps, sys.argv[3:]):
    began = time.process_time()
    while time.process_time() - began < pause / 8:
        pass
    time.sleep(pause * 7 / 8)
    loss = 0.4 + 3.2 * math.exp(-step / (steps / 4)) + 0.05 * math.sin(step)
    print(f"penstock: step={step} total={steps} loss={loss:.4f}", flush=True)
    if step % 40 == 0:
        print(f"INFO step {step}: loss {loss:.4f}", flush=True)
    if step == 60:
        print("WARNING the learning rate was lowered to 3e-4", flush=True)
"""
_DATA = """
def batches(steps, options):
    for step in range(1, steps + 1):
        yield check(step, options)

def check(step, options):
    if options and step == 8:
        raise ValueError(f"image 2041 of {options[0]} has 4 channels, the model takes 3")
    return step
"""


class LivelySite(WebSite):
    """Six devices, two teams and an admin."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, slots=6)
        (folder / "train.py").write_text(_TRAIN)
        (folder / "data.py").write_text(_DATA)
        self.jobs: dict[str, str] = {}

    def open(self) -> None:
        super().open()
        with self.client("admin") as admin:
            admin.set_quota("blue", active_jobs=20, devices=4)
            admin.make_token(
                name="nightly pipeline", tenant="red", role="user", scope=["read", "submit"], expires="30d"
            )

    def fill(self) -> None:
        """Everything that is to be seen, once it can be."""
        self._add("ada", "warm-up", 20, 0.05, 1, deadline="10m", known=True)
        self._add("eve", "tokenizer", 30, 0.05, 1)
        self._wait_for_end_of("warm-up", "tokenizer")
        self._add("ada", "broken-images", 100, 0.05, 1, extra=["faces-v2"])
        self._wait_for_end_of("broken-images")
        self._add("ada", "resnet-night", 3000, 0.12, 2, deadline="12m", known=True)
        self._add("eve", "speech-base", 2400, 0.12, 2, deadline="8m", known=True)
        self._add("eve", "ablation", 4000, 0.12, 1)
        self._add("ada", "too-late", 100_000, 0.1, 2, deadline="1m", known=True)
        self._add("ada", "vit-large", 600, 0.1, 4, deadline="20m", known=True)
        self._add("eve", "retrieval", 400, 0.1, 3)
        until(lambda: self._step("ablation") >= 150, "the jobs to come along", 120.0)

    def _add(
        self, who: str, name: str, steps: int, pause_s: float, devices: int, *, known: bool = False,
        extra: list[str] | None = None, **keys: Any,
    ) -> None:  # fmt: skip
        spec = self.spec(steps, pause_s, name=name, devices=str(devices), retries=0, **keys)
        spec |= {"args": [*spec["args"], *(extra or [])], "name": name}
        if known:
            rates = {count: (0.9 + 0.02 * count) / pause_s for count in (1, 2, 4)}
            self.teach(spec, rates, tenant={"ada": "blue", "eve": "red"}[who])
        with self.client(who) as client:
            self.jobs[name] = client.submit(spec).job.id

    def _wait_for_end_of(self, *names: str) -> None:
        ends = ("finished", "failed")
        for name in names:
            self.wait(lambda client, name=name: client.job(self.jobs[name]).state in ends, f"the end of {name}")

    def _step(self, name: str) -> int:
        job = self.ask(lambda client: client.job(self.jobs[name]))
        return (job.progress.step or 0) if job.progress is not None else 0
