"""What the search has been through, so that it does not go there twice."""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field

from bench.aceso.config import AcesoConfig


@dataclass
class Visits:
    """Configurations seen; target stages tried per configuration; partners tried per configuration and target."""

    configs: set[Hashable] = field(default_factory=set)
    targets: dict[Hashable, set[int]] = field(default_factory=lambda: defaultdict(set))
    partners: dict[Hashable, set[int]] = field(default_factory=lambda: defaultdict(set))

    def target(self, config: AcesoConfig, *, by_time: bool = False, note: str = "", again: bool = False) -> int | None:
        """The bottleneck: the fullest stage while one does not fit, else the slowest; the next one if it was tried.

        ``again`` ignores what was tried; ``note`` keeps separate books.
        """
        values = config.times_ms if by_time or config.fits else config.memories_mb
        tried = self.targets[config.key, note]
        open_stages = [stage for stage in range(len(values)) if again or stage not in tried]
        if not open_stages or (not again and len(tried) >= len(values)):
            return None
        target = max(open_stages, key=lambda stage: values[stage])
        tried.add(target)
        return target

    def partner(self, config: AcesoConfig, target: int, note: str = "") -> int | None:
        """Who takes operators from ``target``: the stage with most slack, or with most room while one does not fit."""
        tried = self.partners[config.key, target, note]
        values = config.slack if config.fits else [-memory for memory in config.memories_mb]
        others = [stage for stage in range(len(values)) if stage != target and stage not in tried]
        if config.fits:
            others = [stage for stage in others if values[stage] > 0]
        if not others:
            return None
        partner = max(others, key=lambda stage: values[stage])
        tried.add(partner)
        return partner
