"""A world with nothing in it: a sandbox that loads it works. What another world cannot do is then its own fault."""

from harness.world.world import World

world = World("probe")
