"""``python -m penstock.serve``: what a client starts when it finds no server."""

import sys

from penstock.serve.server import main

sys.exit(main())
