"""One call: the spans that tell of it, as one."""
