"""Software that jobs ask for, made ready: virtual environments, conda, images of containers, setup scripts."""
