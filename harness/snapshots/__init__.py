"""Results of tools that were recorded, given again in place of the tools."""
