"""How the command line looks: console, formats, the keyboard and the screen of ``penstock top``."""
