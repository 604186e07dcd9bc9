"""Sessions that show what the page can show: for its tests, and for the README's pictures."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.end_to_end.service import SPECS, Service, eventually, run
from tests.end_to_end.traffic import GOLDEN, MILLISECOND, Sent, send

__all__ = ["Scene", "learnt_refunds", "play", "serve_scenes"]

SECOND = 1_000 * MILLISECOND
ORDER: Mapping[str, Any] = {"order": "W2378156"}
Call = tuple[str, int, int] | tuple[str, int, int, Mapping[str, Any]]
"""Tool, start and end in milliseconds from the session's first call, arguments."""

REFUND = ("find_user", "get_order", "check_policy", "refund", "send_mail")
LEARNT: Sequence[tuple[int, Sequence[str], bool]] = (
    (7, REFUND, True),
    (4, ("find_user", "get_order", "check_policy", "send_mail"), True),
    (3, ("find_user", "list_orders", "get_order", "check_policy", "refund", "send_mail"), True),
    (2, ("get_order", "check_policy", "refund", "send_mail"), True),
    (1, ("find_user", "get_order", "refund", "refund"), False),
    (1, ("find_user", "refund"), False),
)
"""How often, which calls, and whether it went well."""


def learnt_refunds(folder: Path) -> Path:
    """A reference of a refund agent, learnt from eighteen runs by the verb `learn`."""
    runs = [
        {
            "run": f"run-{place}-{number}",
            "agent": "refunds",
            "calls": [{"tool": tool, "arguments": ORDER} for tool in tools],
            "reward": float(well),
        }
        for place, (often, tools, well) in enumerate(LEARNT)
        for number in range(often)
    ]
    recorded, out = folder / "refunds.jsonl", folder / "usual_refund.yaml"
    recorded.write_text("".join(json.dumps(each) + "\n" for each in runs), encoding="utf-8")
    done = run(
        "learn", str(recorded), "--id", "usual_refund", "--success", "reward=1.0",
        "--writes", "refund,send_mail", "--out", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # So few runs promise no bar of the risk: its owner sets one.
    text = out.read_text(encoding="utf-8")
    assert "  alarm: 1.0  #" in text
    out.write_text(text.replace("  alarm: 1.0  #", "  alarm: 0.6  #"), encoding="utf-8")
    return out


def serve_scenes(folder: Path, **variables: str) -> Service:
    """A service that knows the bundled specs and the reference."""
    reference = learnt_refunds(folder)
    return Service(
        ("--specs", str(SPECS), "--specs", str(reference)),
        {"OFFRAILS_HISTORY": "complete", "OFFRAILS_SHOW_ARGUMENTS": "true", **variables},
    ).wait_ready()


class Scene:
    """One session of an agent, its calls at given times.

    Args:
        session: its id.
        number: makes ids differ from those of other scenes.
        service: the agent's `service.name`.
        before_ns: how long before now its first call was.
        now_ns: now, if it is to be another time than the clock's.
    """

    def __init__(
        self,
        session: str,
        number: int,
        service: str = "farm-rover",
        before_ns: int = 60 * SECOND,
        now_ns: int | None = None,
    ) -> None:
        self.session = session
        self.resource = {"service.name": service, "service.namespace": "harvest"}
        self._trace = (0xA000 + number).to_bytes(16, "big")
        self._start = (time.time_ns() if now_ns is None else now_ns) - before_ns
        self.spans: list[Sent] = []

    def calls(self, *calls: Call) -> Scene:
        """Adds calls; those that overlap have one parent."""
        for tool, begin, end, *more in calls:
            given = {"gen_ai.tool.call.arguments": json.dumps(more[0] if more else {})}
            self.spans.append(
                Sent(
                    self._trace,
                    (len(self.spans) + 2).to_bytes(8, "big"),
                    f"execute_tool {tool}",
                    self._start + begin * MILLISECOND,
                    self._start + end * MILLISECOND,
                    {
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": tool,
                        "gen_ai.conversation.id": self.session,
                        "gen_ai.agent.name": self.resource["service.name"],
                        **given,
                    },
                    (1).to_bytes(8, "big"),
                )
            )
        return self

    def steady(self, *tools: str, every: int = 900) -> Scene:
        """Adds calls one after the other."""
        first = len(self.spans)
        times = [(first + place) * every for place in range(len(tools))]
        given = ORDER if self.resource["service.name"] == "refunds" else {}
        return self.calls(
            *(
                (tool, at, at + 300 + 90 * (at % 7), given)
                for tool, at in zip(tools, times, strict=True)
            )
        )


def scenes(now_ns: int | None = None) -> Sequence[Scene]:
    """The sessions of the pictures."""
    field = {"field": 3}
    scene = partial(Scene, now_ns=now_ns)
    return (
        scene("rover-0417 field 3", 1).calls(
            ("unlock_safety", 0, 180),
            ("move", 420, 2400, {"x": 3, "y": 4}),
            ("scan", 2600, 3300, {"area": "field 3"}),
            ("water", 3600, 4100, field | {"liters": 10}),
            ("open_valve", 4500, 4900, {"valve": "V3"}),
            ("water", 5200, 7600, field | {"liters": 10}),
            ("log", 7900, 8000, {"message": "field 3 done"}),
        ),
        scene("rover-0418 field 4", 2, before_ns=40 * SECOND).steady(*GOLDEN),
        scene("rover-0419 field 9", 3, before_ns=30 * SECOND).calls(
            ("unlock_safety", 0, 200),
            ("move", 300, 1900),
            ("scan", 2000, 2900),
            ("log", 2100, 2500),
            ("log", 2300, 3100),
            ("open_valve", 3300, 3700),
            ("fly", 4000, 4200),
            ("water", 4400, 6100),
            ("water", 6200, 6900),
        ),
        scene("rover-0420 field 2", 4, before_ns=12 * SECOND).steady("unlock_safety", "move"),
        scene("refund, second try", 5, "refunds", 50 * SECOND)
        .steady("find_user", "get_order", "refund")
        .calls(("update_account", 2700, 3100, {"vip": True}))
        .steady("send_mail"),
        scene("refund, first try", 6, "refunds", 20 * SECOND).steady(*REFUND),
        scene("errand 77", 7, "errands").steady("search", "open_page", "search"),
    )  # fmt: skip


def play(service: Service, played: Sequence[Scene] | None = None) -> None:
    """Sends the scenes and waits until each is known."""
    for scene in scenes() if played is None else played:
        send(service, scene.spans, resource=scene.resource)
        eventually(partial(service.judgements, scene.session))
