"""Many rollouts: tasks by seeds, in parallel, written as they end, and gone on with."""
