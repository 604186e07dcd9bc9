"""Tools run in a process of their own: bubblewrap, or namespaces of our own making."""
