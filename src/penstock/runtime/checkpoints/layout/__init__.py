"""Which part of which tensor lies where, and how state is cut anew for other workers."""
