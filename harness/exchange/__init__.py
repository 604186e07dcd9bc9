"""Tasks of other benchmarks brought in, and rollouts given in other forms."""
