"""An agent as a program of its own, where no zygote forks it."""

import sys

from penstock.backends.runs.agent.program import main

if __name__ == "__main__":
    sys.exit(main())
