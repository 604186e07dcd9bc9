"""First drafts of specs: from runs, from a learnt automaton, from the CORE format."""
