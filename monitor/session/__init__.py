"""Sessions: a log of calls behind a checkpoint, judged under each spec."""
