"""Reading logs of any size: the few lines that may matter, in bounded memory."""
