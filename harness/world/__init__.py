"""What the module of a world is made of. Standard library alone: it is loaded in the sandbox."""
