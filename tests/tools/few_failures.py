"""Whether so few tests failed that chance may have had a hand in it; says which, and ends with 1 if it were many.

Tests of real engines, browsers and killed processes meet what happens once in ten thousand times. Those that failed are
told and run once more by themselves, and one that fails again has failed. Many failures are no chance.
"""

import json
import sys
from pathlib import Path

MOST = 5


def main(cache: Path) -> int:
    names = cache / "v" / "cache" / "lastfailed"
    failed = sorted(json.loads(names.read_text())) if names.exists() else []
    print("\n".join(f"FAILED ONCE {name}" for name in failed), flush=True)
    if 0 < len(failed) <= MOST:
        return 0
    print(f"{len(failed)} tests failed; only 1 to {MOST} are run once more")
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
