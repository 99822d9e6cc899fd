"""How the schema came to be, one file per step; steps are never edited once released."""
