"""`regard serve`: runs behind one small API, for the page and for programs."""
