"""Task documents: their model and schema, where they are found, and when a task is done."""
