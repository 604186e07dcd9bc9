"""A spec as a document: YAML with positions, its schema, and its faults."""
