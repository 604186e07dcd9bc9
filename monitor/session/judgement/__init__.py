"""One session under one spec: its log read in two ways, folded behind a checkpoint."""
