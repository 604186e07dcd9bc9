"""How a model is told of its task, and how its texts are read: templates are files, and have versions."""
