"""One automaton a thing: the runs of a spec with `each`."""
