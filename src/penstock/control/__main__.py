"""``python -m penstock.control``: what a client starts when it finds no server."""

import sys

from penstock.control.server import main

sys.exit(main())
