"""What all tests share: how hypothesis looks for examples."""

from __future__ import annotations

import os

from hypothesis import settings

# Everywhere else each run tries new examples; what decides whether work lands repeats itself.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
