"""Where the pages live."""

ROOT = "/ui"
STATIC = f"{ROOT}/static"
STYLE_URL = f"{STATIC}/style.css"


def job_url(job_id: str) -> str:
    return f"{ROOT}/jobs/{job_id}"
