"""A risk learnt over many tasks, and the protocol by which it is measured."""
