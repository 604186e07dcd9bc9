"""Pictures of automata and references: layout, SVG, Mermaid, Graphviz."""
