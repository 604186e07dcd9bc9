"""One rollout: the loop, its clocks and spans, its judgement, and why it failed."""
