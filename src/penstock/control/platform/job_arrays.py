"""Job arrays: one job file and a range of indices, submitted together; all jobs of an array are taken in, or none.

A member is a job like any other. It is called after the array (``train-17``), so is its id, and it finds its index in
``PENSTOCK_ARRAY_INDEX``. Its checkpoints are its own: below the directory that the job file names, if it names one.
"""

from dataclasses import dataclass, replace

from penstock.control.loop.job_reader import JobDraft
from penstock.core import InputError

INDEX_VARIABLE = "PENSTOCK_ARRAY_INDEX"
_LONGEST_NAME = 63


def array_name(member: str) -> str:
    """What an array is called of which a job has this name."""
    return member.rpartition("-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArray:
    """The indices of an array whose jobs are called after ``id``."""

    id: str
    indices: range

    @property
    def job_ids(self) -> list[str]:
        return [f"{self.id}-{index}" for index in self.indices]

    def members(self, draft: JobDraft) -> list[JobDraft]:
        """The jobs of the array; ``draft`` is the job file as it was read under the array's own id."""
        longest = f"{draft.name}-{self.indices[-1]}"
        if len(longest) > _LONGEST_NAME:
            raise InputError(
                f"the name {longest!r}", f"at most {_LONGEST_NAME} characters with the index", "Shorten it"
            )
        return [self._member(draft, index) for index in self.indices]

    def _member(self, draft: JobDraft, index: int) -> JobDraft:
        name, job_id = f"{draft.name}-{index}", f"{self.id}-{index}"
        folder, _, own = draft.recipe.checkpoint_dir.rpartition("/")
        recipe = replace(
            draft.recipe,
            env=tuple(sorted((*draft.recipe.env, (INDEX_VARIABLE, str(index))))),
            checkpoint_dir=f"{folder}/{job_id}" if own == self.id else f"{folder}/{own}/{index}",
        )
        spec = {**draft.spec, "name": name}
        return replace(draft, name=name, job=replace(draft.job, id=job_id), recipe=recipe, spec=spec)
