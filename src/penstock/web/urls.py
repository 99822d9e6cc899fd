"""Where the pages live."""

from urllib.parse import urlencode

ROOT = "/ui"
STATIC = f"{ROOT}/static"
STYLE_URL = f"{STATIC}/style.css"
SCRIPT_URL = f"{STATIC}/charts.js"


def job_url(job_id: str) -> str:
    return f"{ROOT}/jobs/{job_id}"


def compare_url(*jobs: str) -> str:
    return f"{ROOT}/compare?{urlencode({'jobs': ','.join(jobs)}, safe=',')}"
