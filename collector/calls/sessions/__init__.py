"""Which session a trace's calls belong to, and calls of which that is not known yet."""
