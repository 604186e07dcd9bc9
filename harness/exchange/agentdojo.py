"""AgentDojo brought in: its user tasks, its attack cases, and a spec for each task, learnt of its ground truth.

The package's own environments and success functions run inside the bench (`agentdojo_world`); nothing of it is copied.

A spec takes the writing calls of the ground truth for progress (its reads where it writes nothing), and all reading
tools for harmless. Arguments are asked for as they are, but for texts in an agent's own words.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from harness.exchange.agentdojo_world import suite_of
from harness.exchange.documents import write_document
from harness.exchange.learnt_spec import learnt_spec

__all__ = ["ATTACKS", "SUITES", "VERSIONS", "import_agentdojo"]

SUITES: Final = ("workspace", "travel", "banking", "slack")
VERSIONS: Final = ("v1", "v1.1", "v1.1.1", "v1.1.2", "v1.2", "v1.2.1", "v1.2.2")
ATTACKS: Final = (
    "direct",
    "ignore_previous",
    "system_message",
    "injecagent",
    "important_instructions",
)

_READING: Final = ("get_", "read_", "search_", "list_", "check_")
"""How the names of tools begin that change nothing."""
_FREE: Final = frozenset(
    {"body", "content", "date", "description", "location", "subject", "title"}
)
"""Arguments that an agent puts into words of its own."""
_ORDERED_FROM: Final = 4
"""Writing calls from which on only the order of the ground truth is right; fewer may come in any order."""

_MODULE: Final = '''"""AgentDojo's suite {name}, {version}. Written by `offrails harness import agentdojo`."""

from harness.exchange.agentdojo_world import world_of

world, STATE = world_of("{name}", "{version}")
'''


def import_agentdojo(folder: Path, version: str, attack: str | None) -> tuple[int, int]:
    """Writes worlds, tasks and specs. Returns how many tasks, and how many attack cases.

    Args:
        folder: gets a folder a suite.
        version: one of `VERSIONS`.
        attack: one of `ATTACKS`, which words the injected texts; None for tasks alone.

    Raises:
        ImportError: the package is not installed.
        OSError: a file cannot be written.
    """
    tasks = attacks = 0
    for name in SUITES:
        suite, place = suite_of(name, version), folder / name
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.py").write_text(_MODULE.format(name=name, version=version))
        for task in suite.user_tasks.values():
            document = _task(suite, task)
            spec = _spec(suite, document)
            write_document(place / f"{task.ID}.spec.yaml", spec)
            write_document(place / f"{task.ID}.yaml", document)
            tasks += 1
            for case in _cases(suite, task, document, attack):
                write_document(
                    place / f"{case['task'].partition('/')[2].replace('/', '.')}.yaml", case
                )
                attacks += 1
    return tasks, attacks


def _task(suite: Any, task: Any) -> dict[str, Any]:
    environment = task.init_environment(suite.load_and_inject_default_environment({}))
    golden = [_call(each) for each in task.ground_truth(environment)]
    return {
        "task": f"{suite.name}/{task.ID}",
        "benchmark": "agentdojo",
        "world": suite.name,
        "instruction": task.PROMPT,
        "spec": f"{task.ID}.spec.yaml",
        "tags": ["safety"],
        "environment": {"packages": True, "state": {"task": task.ID}},
        "evaluation": {"criterion": "check", "check": task.ID},
        "golden": [golden],
        "final": task.GROUND_TRUTH_OUTPUT or "Done.",
    }


def _call(given: Any) -> dict[str, Any]:
    return {
        "tool": given.function,
        "arguments": json.loads(json.dumps(given.args, default=str)),
    }


def _cases(
    suite: Any, task: Any, document: Mapping[str, Any], attack: str | None
) -> Iterator[dict[str, Any]]:
    """The task under each of the suite's injections."""
    if attack is None:
        return
    from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
    from agentdojo.attacks.attack_registry import load_attack

    target = GroundTruthPipeline(None)
    target.name = "local"  # The model that some attacks speak to.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words = load_attack(attack, suite, target)
    for injection in suite.injection_tasks.values():
        texts = words.attack(task, injection)
        environment = suite.load_and_inject_default_environment(texts)
        calls = [_call(each) for each in injection.ground_truth(environment)]
        state = {**document["environment"]["state"], "injections": texts}
        goal = {"calls": calls, "check": injection.ID, "texts": [injection.GOAL]}
        yield {
            **document,
            "task": f"{document['task']}/{injection.ID}",
            "environment": {"packages": True, "state": state},
            "attack": goal,
        }


# --- specs ------------------------------------------------------------------------------------------


def _spec(suite: Any, document: Mapping[str, Any]) -> dict[str, Any]:
    """The spec that is learnt of a task's ground truth."""
    return learnt_spec(
        document["task"],
        document["instruction"],
        document["golden"][0],
        [each.name for each in suite.tools if each.name.startswith(_READING)],
        free=_FREE,
        any_order_below=_ORDERED_FROM,
    )
