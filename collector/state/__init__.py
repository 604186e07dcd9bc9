"""The journal: what receivers acknowledged, on disk, so that a process that ends loses nothing."""
