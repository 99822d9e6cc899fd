"""Why a run failed, as the API shows it."""

from pydantic import BaseModel, ConfigDict, Field

from penstock.core import Diagnosis, build, plain


class _View(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class EvidenceView(_View):
    text: str
    source: str = ""
    line: int | None = None
    rank: int | None = None


class CulpritView(_View):
    rank: int | None = None
    node: str = ""
    device: str = ""


class DiagnosisView(_View):
    """One cause and one remedy; ``unknown`` is an abstention, though its cause may still say what is known."""

    category: str = Field(description='A category of signatures such as "mem.gpu_oom", or "unknown".')
    confidence: float = Field(ge=0.0, le=1.0)
    cause: str = ""
    fix: str = ""
    action: str = Field(description="What a controller should do.")
    evidence: list[EvidenceView] = Field(default=[])
    culprit: CulpritView = CulpritView()
    similar: list[str] = Field(default=[], description="Public reports of the same.")

    @classmethod
    def of(cls, diagnosis: Diagnosis) -> "DiagnosisView":
        return cls.model_validate(plain(diagnosis))

    def as_diagnosis(self) -> Diagnosis:
        """The value that the view shows."""
        diagnosis: Diagnosis = build(Diagnosis, self.model_dump())
        return diagnosis
