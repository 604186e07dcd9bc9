"""Values as dialects write them: arguments, results, and JSON read in part."""
