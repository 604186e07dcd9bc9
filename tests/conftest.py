"""What all tests share: how hypothesis looks for examples."""

from __future__ import annotations

import os

from hypothesis import settings

# No test asks how long an example takes: some compile what they test, and machines are busy.
settings.register_profile("anywhere", deadline=None)
# Everywhere else each run tries new examples; what decides whether work lands repeats itself.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "anywhere")
