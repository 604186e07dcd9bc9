"""The examples of the laws are the same in every run."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from hypothesis import settings
from hypothesis.internal.conjecture.providers import HypothesisProvider


def test_a_module_that_a_test_loads_changes_no_example(tmp_path: Path) -> None:
    """One that a test writes and loads adds none. Those of the product are drawn where there are many examples."""
    file = tmp_path / "written.py"
    file.write_text("ODD = 918_273_645_546")
    spec = spec_from_file_location("written_by_a_test", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        constants = HypothesisProvider(None)._local_constants  # noqa: SLF001 - hypothesis has no setting for it
        assert 918_273_645_546 not in constants.set_for_type("integer")
        read = settings.get_current_profile_name() != "few"
        assert bool(constants.set_for_type("integer")) is read
    finally:
        del sys.modules[spec.name]
