"""A spec as a judge: tokens, steps, episodes, one run of its automaton."""
