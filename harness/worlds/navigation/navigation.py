"""A grid of five by five with walls, gates and a key: a walker moves a field at a time. (0, 0) is at the top left."""

from __future__ import annotations

from typing import Any

from harness.world.world import ToolError, World, entry

world = World("navigation")

STATE: dict[str, Any] = {
    "walker": {"x": 0, "y": 0, "carries": []},
    "walls": [[1, 1], [1, 2], [3, 1], [3, 3]],
    "gates": {"2,2": "closed"},
    "things": {"key": [0, 2], "lamp": [4, 0]},
    "marks": [],
    "broken": [],
}

STEPS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
SIZE = 5


@world.tool(reads=["walker"])
def show_position(state: dict[str, Any]) -> dict[str, Any]:
    """Shows where the walker is, and what it carries."""
    return dict(state["walker"])


@world.tool(reads=["walker", "walls", "gates"])
def look(state: dict[str, Any], direction: str) -> str:
    """Says what is in a direction: free, wall, closed gate or edge."""
    return _seen(state, *_ahead(state, direction))


@world.tool(reads=["things"])
def find_thing(state: dict[str, Any], thing: str) -> list[int]:
    """Says where a thing lies."""
    return list(entry(state["things"], thing, f"there is no {thing}"))


@world.tool(reads=["walls", "gates"], writes=["walker"])
def step(state: dict[str, Any], direction: str) -> list[int]:
    """Moves one field up, down, left or right."""
    x, y = _ahead(state, direction)
    if (seen := _seen(state, x, y)) != "free":
        raise ToolError(f"there is a {seen}")
    state["walker"] |= {"x": x, "y": y}
    return [x, y]


@world.tool(writes=["walker", "things"])
def take(state: dict[str, Any], thing: str) -> str:
    """Takes a thing that lies where the walker is."""
    walker = state["walker"]
    if state["things"].get(thing) != [walker["x"], walker["y"]]:
        raise ToolError(f"there is no {thing} here")
    del state["things"][thing]
    walker["carries"].append(thing)
    return f"carries {thing}"


@world.tool(writes=["walker", "things"])
def drop(state: dict[str, Any], thing: str) -> str:
    """Lays a thing down where the walker is."""
    walker = state["walker"]
    if thing not in walker["carries"]:
        raise ToolError(f"the walker carries no {thing}")
    walker["carries"].remove(thing)
    state["things"][thing] = [walker["x"], walker["y"]]
    return "laid down"


@world.tool(reads=["walker"], writes=["gates"])
def open_gate(state: dict[str, Any], direction: str) -> str:
    """Opens a gate beside the walker. It takes the key."""
    return _turn(state, direction, "open")


@world.tool(reads=["walker"], writes=["gates"])
def close_gate(state: dict[str, Any], direction: str) -> str:
    """Closes a gate beside the walker. It takes the key."""
    return _turn(state, direction, "closed")


@world.tool(reads=["walker"], writes=["marks"])
def mark(state: dict[str, Any]) -> str:
    """Marks the field where the walker is."""
    state["marks"].append([state["walker"]["x"], state["walker"]["y"]])
    return "marked"


@world.tool(writes=["broken"])
def break_wall(state: dict[str, Any], x: int, y: int) -> str:
    """Breaks into a wall. It takes a long time, and others hear it."""
    state["broken"].append([x, y])
    return "a hole"


@world.tool(writes=["broken"])
def burn_hedge(state: dict[str, Any]) -> str:
    """Sets fire to what grows between the fields."""
    state["broken"].append("hedge")
    return "it burns"


def _ahead(state: dict[str, Any], direction: str) -> tuple[int, int]:
    if direction not in STEPS:
        raise ToolError("expected up, down, left or right")
    right, down = STEPS[direction]
    return state["walker"]["x"] + right, state["walker"]["y"] + down


def _seen(state: dict[str, Any], x: int, y: int) -> str:
    if not (0 <= x < SIZE and 0 <= y < SIZE):
        return "edge"
    if [x, y] in state["walls"]:
        return "wall"
    return "closed gate" if state["gates"].get(f"{x},{y}") == "closed" else "free"


def _turn(state: dict[str, Any], direction: str, to: str) -> str:
    x, y = _ahead(state, direction)
    if f"{x},{y}" not in state["gates"]:
        raise ToolError("there is no gate")
    if "key" not in state["walker"]["carries"]:
        raise ToolError("it takes the key")
    state["gates"][f"{x},{y}"] = to
    return to
