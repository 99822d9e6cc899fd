"""What was measured, as it is kept on disk: kernel rows, networks and steady loads."""
