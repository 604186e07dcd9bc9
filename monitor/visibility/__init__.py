"""What is not known of the world: causes, what they allow, and how far they reach."""
