"""From files of text to packed tokens."""
