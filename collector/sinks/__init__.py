"""Where verdicts go, beside the metrics."""
