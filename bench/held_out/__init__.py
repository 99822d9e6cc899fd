"""Published runs that nothing here was settled on."""
