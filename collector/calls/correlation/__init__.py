"""Which spans are one call, and whether an execution is told twice."""
