"""`offrails hook claude-code`, as the process that Claude Code starts for each event."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor import Monitor
from offrails_guard import LocalGuard
from offrails_guard.adapters.claude_code import reply
from offrails_guard.awaiting_outcome.decision_id_files import FILES_MAX, DecisionIdFiles
from offrails_guard.policies import Policy
from tests.end_to_end.loopback import free_port
from tests.end_to_end.service import ROOT
from tests.offrails_guard.double import DENIED, Double

Hook = Callable[..., subprocess.CompletedProcess[str]]

COMMON = {
    "session_id": "5f0c",
    "transcript_path": "/home/me/.claude/projects/p/5f0c.jsonl",
    "cwd": "/home/me/p",
    "permission_mode": "default",
    "tool_use_id": "toolu_1",
}


def event(tool: str, name: str = "PreToolUse", **more: Any) -> str:
    """An event as Claude Code documents it."""
    found = {**COMMON, "hook_event_name": name, "tool_name": tool, "tool_input": {"field": 3}}
    return json.dumps({**found, **more})


@pytest.fixture
def hook(double: Double, tmp_path: Path) -> Hook:
    """Runs the process on one event."""

    def run(text: str, *options: str, url: str = "") -> subprocess.CompletedProcess[str]:
        arguments = ("--url", url or double.url, "--deadline", "20", *options)
        return subprocess.run(
            [sys.executable, "-m", "collector", "hook", "claude-code", *arguments],
            cwd=ROOT,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            input=text,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    return run


def test_an_allowed_call_goes_its_usual_way(double: Double, hook: Hook) -> None:
    """Exit code 0 and not a word: an explicit allow would skip the user's own rules."""
    done = hook(event("scan", agent_type="Explore"), "--service", "claude-code")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    asked = double.asked()
    assert asked.pop("question_id")
    assert asked == {
        "session": "5f0c",
        "agent": "Explore",
        "service": "claude-code",
        "tool": "scan",
        "arguments": {"field": 3},
        "call_id": "toolu_1",
        "commit": True,
    }


def test_a_denied_call_is_not_made(double: Double, hook: Hook) -> None:
    """Exit code 2, the model reads the reason on standard error, and the service learns that it obeys."""
    done = hook(event("water"))

    assert (done.returncode, done.stdout, done.stderr) == (2, "", DENIED + "\n")
    assert double.outcome() == ("d1", "skipped")


def test_a_denied_call_in_json(hook: Hook) -> None:
    """With --json the denial is a `permissionDecision`, and the exit code is 0."""
    done = hook(event("water"), "--json")

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": DENIED,
        }
    }


@pytest.mark.parametrize(
    ("name", "outcome"), [("PostToolUse", "ran"), ("PostToolUseFailure", "failed")]
)
def test_the_outcome_is_sent(double: Double, hook: Hook, name: str, outcome: str) -> None:
    """The event after the call settles the decision of the process before it, once."""
    assert hook(event("scan")).returncode == 0
    for _ in range(2):
        done = hook(event("scan", name, tool_response={}))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    assert double.outcome() == ("d1", outcome)
    assert double.outcomes.empty()


@pytest.mark.parametrize(("setting", "code"), [("allow", 0), ("deny", 2)])
def test_without_a_service_it_is_the_setting(hook: Hook, setting: str, code: int) -> None:
    """Nobody to ask: the call goes its way, or is not made and the model reads why."""
    url = f"http://127.0.0.1:{free_port()}"
    done = hook(event("scan"), "--on-unavailable", setting, url=url)

    assert done.returncode == code
    assert ("This call was not made" in done.stderr) == (code == 2)


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
@pytest.mark.parametrize(("setting", "code"), [("allow", 1), ("deny", 2)])
def test_an_event_that_cannot_be_read_is_the_settings(
    hook: Hook, text: str, setting: str, code: int
) -> None:
    """The user reads a notice, or the call is not made; never a traceback."""
    done = hook(text, "--on-unavailable", setting)

    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert done.stderr


@pytest.mark.parametrize(
    "odd",
    ["[" * 1500 + "]" * 1500, '{"a":' * 90_000 + "1" + "}" * 90_000, "9" * 5000, "NaN", '"\x01"',
     '{"a":1,"a":2}', '"\\ud800"'],
)  # fmt: skip
def test_what_a_model_writes_keeps_no_call_from_being_asked_for(
    double: Double, hook: Hook, odd: str
) -> None:
    """A value that Python's reader refuses is unknown; session, tool, id and the other arguments are read."""
    text = event("water").replace('"field": 3', f'"field": {odd}, "liters": 4')
    done = hook(text)

    assert (done.returncode, done.stderr) == (2, DENIED + "\n")
    asked = double.asked()
    assert (asked["session"], asked["call_id"]) == ("5f0c", "toolu_1")
    assert (asked["arguments"], asked["unread"]) == ({"liters": 4}, ["field"])


@pytest.mark.parametrize("cut", [1, 2, 8])
def test_arguments_of_an_event_that_was_cut_are_unknown(
    double: Double, hook: Hook, cut: int
) -> None:
    """What was read of them is not all: an argument may be missing."""
    head = '"tool_name": "water", "hook_event_name": "PreToolUse", "session_id": "s", '
    done = hook("{" + head + '"tool_input": {"liters": 4, "field": 3'[:-cut])

    assert done.returncode == 2
    assert "arguments" not in double.asked()


def test_the_first_calls_of_a_new_session_are_said_to_be_that(
    double: Double, hook: Hook
) -> None:
    """From its start until a call was made, a session that was not resumed has no call that the service missed."""
    hook(event("scan", "SessionStart", source="resume"))
    hook(event("scan"))
    hook(event("scan", "SessionStart", source="startup"))
    hook(event("water"))
    hook(event("scan", tool_use_id="toolu_2"))
    hook(event("scan", "PostToolUse", tool_use_id="toolu_2"))
    hook(event("scan", tool_use_id="toolu_3"))

    assert [double.asked().get("new_session", False) for _ in range(4)] == [
        False, True, True, False,
    ]  # fmt: skip


def test_the_user_is_told_once_that_nobody_judges(double: Double, hook: Hook) -> None:
    """A call that goes on since no spec matches, or nobody can be asked, is no silent one; once in a session."""
    double.matched = False
    first, second = hook(event("scan")), hook(event("scan"))
    other = hook(event("scan", session_id="other"))
    denied = hook(event("scan"), "--on-no-spec", "deny")

    assert "no spec matches" in json.loads(first.stdout)["systemMessage"]
    assert (second.stdout, other.stdout) == ("", first.stdout)
    assert (denied.returncode, "no rules for this agent" in denied.stderr) == (2, True)


@pytest.mark.parametrize(("policy", "code"), [("allow", 1), ("deny", 2)])
def test_a_fault_of_ours_is_the_settings(tmp_path: Path, policy: Policy, code: int) -> None:
    """An exception is a notice for the user, or a call that is not made; a name that is no text is none."""
    guard = LocalGuard(Monitor())
    held = DecisionIdFiles(tmp_path / "held")
    odd = event("scan", session_id="\ud800", tool_use_id="\ud800").encode()
    assert reply(odd, guard, held, policy, as_json=False).code == 0
    guard.check = None  # type: ignore[assignment, method-assign]
    found = reply(event("scan").encode(), guard, held, policy, as_json=False)

    assert (found.code, found.out, bool(found.err)) == (code, "", True)


def test_other_events_are_none_of_its_business(double: Double, hook: Hook) -> None:
    """A hook that is wired to everything asks for tools alone."""
    done = hook(event("scan", "SessionStart"))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert double.decisions.empty()


@pytest.mark.parametrize(("setting", "code"), [("allow", 1), ("deny", 2)])
def test_what_cannot_be_used_is_the_settings(hook: Hook, setting: str, code: int) -> None:
    """A wrong address or a token file that is gone is said, and stops no agent that fails open."""
    address = hook(event("scan"), "--on-unavailable", setting, url="decide.example")
    token = hook(event("scan"), "--on-unavailable", setting, "--token-file", "/nowhere/token")

    assert (address.returncode, token.returncode) == (code, code)
    assert "expected http://HOST:PORT" in address.stderr
    assert "/nowhere/token" in token.stderr


# --- the files of decisions ------------------------------------------------------------------------


def test_decisions_are_kept_for_their_user_alone(tmp_path: Path) -> None:
    """The folder is made with rights for its user; one that others can open is not used."""
    ours = DecisionIdFiles(tmp_path / "ours")
    ours.put("c1", "d1")
    open_folder = tmp_path / "open"
    open_folder.mkdir(mode=0o777)
    open_folder.chmod(0o777)
    others = DecisionIdFiles(open_folder)
    others.put("c1", "d1")

    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == 0o700
    assert (ours.take("c1"), others.take("c1")) == ("d1", "")
    assert list(open_folder.iterdir()) == []


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A link in the place of the folder leads nowhere."""
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(target)
    DecisionIdFiles(tmp_path / "link").put("c1", "d1")

    assert list(target.iterdir()) == []


def test_decisions_that_nobody_takes_are_bounded(tmp_path: Path) -> None:
    """Beyond the bound the oldest files go; the newest stay."""
    folder = tmp_path / "held"
    held = DecisionIdFiles(folder)
    for number in range(FILES_MAX + 5):
        held.put(f"c{number}", f"d{number}")

    assert len(list(folder.iterdir())) == FILES_MAX
    assert held.take(f"c{FILES_MAX + 4}") == f"d{FILES_MAX + 4}"
