"""Accepted calls: what they change, until when, and how they are written into a spec."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import Limits, Monitor
from monitor.automaton.dfa import UNDEFINED
from monitor.findings import has_errors
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.spec.acceptance import DAY_NS, day_of, expires_ns, in_force
from monitor.spec.compiler.compile import compile_text
from monitor.spec.constraints import SideBySide
from monitor.spec.document.yaml_text import parse
from monitor.spec.editing.add_acceptance import EditError, with_acceptance
from monitor.spec.spec import Acceptance, Spec

TASK = """
id: task
match: {service.name: shop}
alphabet: {open: {tool: open}, close: {tool: close}, look: {tool: look}}
golden: [[open, close]]
reads: [look]
"""
RULES = """
id: rules
kind: policy
alphabet: {ask: {tool: ask}, act: {tool: act}, wipe: {tool: wipe}}
constraints: [{precedence: [ask, [act, wipe]]}, {at_most: [act, 1]}]
"""
CLOSE = Acceptance("close", "G0", None, "ana", "it was open", date(2026, 1, 31))
ACT = Acceptance(
    "act", "before ask", "precedence: [ask, [act, wipe]]", "ana", "a test", date(2026, 1, 31)
)
DAY = date(2026, 1, 15)
NOON = (DAY.toordinal() - date(1970, 1, 1).toordinal()) * DAY_NS + DAY_NS // 2


def compiled(text: str, day: date | None = DAY) -> Spec:
    spec, findings = compile_text(text, "s.yaml", day)
    assert spec is not None, findings
    return spec


def states(spec: Spec, *symbols: str) -> list[str]:
    """The state after each call; a harmful one changes nothing."""
    machine, state, found = spec.machine, spec.machine.initial, []
    for symbol in symbols:
        target = machine.step(state, machine.symbols.index(symbol))
        found.append("harmful" if target == UNDEFINED else machine.name(target))
        state = state if target == UNDEFINED else target
    return found


def test_an_accepted_call_changes_nothing() -> None:
    """It is a self-loop in its state only, and the golden paths stay."""
    bare = compiled(TASK)
    spec = compiled(with_acceptance(TASK, CLOSE))
    assert states(bare, "close", "open", "close", "close") == ["harmful", "G1", "G2", "harmful"]
    assert states(spec, "close", "open", "close", "close") == ["G0", "G1", "G2", "harmful"]
    assert (spec.golden, spec.golden_lengths) == (bare.golden, bare.golden_lengths)
    assert spec.accepted == (CLOSE,)
    assert spec.findings == ()


def test_of_constraints_only_the_one_that_refuses_lets_it_pass() -> None:
    """The call is a self-loop of that constraint only. Other constraints and symbols are unchanged."""
    spec = compiled(with_acceptance(RULES, ACT))
    assert isinstance(spec.machine, SideBySide)
    assert states(spec, "wipe", "act", "act", "ask", "wipe") == [
        "harmful",
        "at_most: [act, 1]: 1",
        "harmful",
        "precedence: [ask, [act, wipe]]: after ask; at_most: [act, 1]: 1",
        "precedence: [ask, [act, wipe]]: after ask; at_most: [act, 1]: 1",
    ]
    second = spec.machine.step(spec.machine.initial, 1)
    assert spec.machine.texts[spec.machine.blame(second, 1)] == "at_most: [act, 1]"


@pytest.mark.parametrize(("text", "entry"), [(TASK, CLOSE), (RULES, ACT)])
def test_it_holds_through_its_last_day(text: str, entry: Acceptance) -> None:
    """The day is handed in: the last one still counts, the next does not, and then it is found."""
    new = with_acceptance(text, entry)
    for day, held in ((date(2026, 1, 31), True), (date(2026, 2, 1), False)):
        spec, findings = compile_text(new, "s.yaml", day)
        assert spec is not None
        assert spec.accepted == (entry,) * held
        assert (states(spec, entry.symbol) == ["harmful"]) is not held
        assert [each.code for each in findings] == ["expired_acceptance"] * (not held)
        assert in_force(compiled(new), day).accepted == spec.accepted
        later = in_force(compiled(new), day)
        assert states(later, entry.symbol) == states(spec, entry.symbol)


def call(session: str, tool: str, number: int, at: int) -> ToolCall:
    return ToolCall(
        session=SessionKey("", session),
        agent="",
        tool=tool,
        arguments={},
        error=False,
        start_ns=at,
        end_ns=at + 1,
        trace_id=bytes(16),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={"service.name": "shop"},
    )


def test_the_monitor_lets_it_expire_without_reading_the_file() -> None:
    """When the day is over new sessions are judged without it; those under way keep it."""
    spec = compiled(with_acceptance(TASK, CLOSE))
    monitor = Monitor([spec], Limits(history_complete=True))
    end = expires_ns(CLOSE)
    assert (day_of(end - 1), day_of(end)) == (date(2026, 1, 31), date(2026, 2, 1))

    [before] = monitor.observe(call("old", "close", 1, NOON), end - DAY_NS)
    monitor.tick(end - 1)
    [still] = monitor.observe(call("new", "close", 2, end - 1), end - 1)
    assert monitor.expired == []
    monitor.tick(end)
    assert monitor.expired == [(spec, CLOSE)]
    [kept] = monitor.observe(call("new", "close", 3, end + 1), end + 1)
    [after] = monitor.observe(call("newer", "close", 4, end + 1), end + 1)

    told = [each.kind.value for each in (before, still, kept, after)]
    assert told == ["self_loop", "self_loop", "self_loop", "harmful"]


# --- the file ----------------------------------------------------------------------------------------

COMMENTED = """# What the shop may do.
id: task   # named once
match: {service.name: shop}
alphabet:
  open: {tool: open}
  close: {tool: close}
golden:
  - [open, close]  # the right way
# the end
"""


def test_comments_and_layout_stay() -> None:
    """The entry is added behind the last line of the document, or of the list there is."""
    once = with_acceptance(COMMENTED, CLOSE)
    assert once == (
        COMMENTED.removesuffix("# the end\n")
        + "\naccept:\n  - symbol: close\n    state: G0\n    who: ana\n"
        + '    why: "it was open"\n    until: 2026-01-31\n'
        + "# the end\n"
    )
    other = CLOSE._replace(state="G2")
    twice = with_acceptance(once, other)
    assert twice.startswith(once.removesuffix("# the end\n"))
    assert compiled(twice).accepted == (CLOSE, other)


@pytest.mark.parametrize(
    "layout",
    [
        TASK.rstrip(),
        TASK.replace("\n", "\r\n"),
        TASK + "accept: []\n",
        TASK + "accept: [ ]  # none yet\ndescription: x\n",
        TASK + "accept:\n- {symbol: open, state: G1, who: a, why: b, until: 2027-01-01}\n\n",
        TASK
        + "accept:\n    -  symbol: open\n       state: G1\n       who: a  # her\n"
        + "       until: 2027-01-01\n       why: |\n         two\n         lines\n\n# more\nversion: 3\n",
        TASK + "accept: [{symbol: open, state: G1, who: a, why: b, until: 2027-01-01},]\n",
        TASK + "accept: [\n  {symbol: open, state: G1, who: a, why: b, until: 2027-01-01}\n]\n",
        TASK.replace("\n", "\n  "),
    ],
    ids=["bare end", "crlf", "empty", "empty in the middle", "at the margin", "block scalar",
         "trailing comma", "over lines", "indented"],
)  # fmt: skip
def test_any_layout_of_the_list_is_added_to(layout: str) -> None:
    """Whatever way the list is written, all old lines stay and one entry is new."""
    new = with_acceptance(layout, CLOSE)
    assert compiled(new).accepted[-1] == CLOSE
    kept = [
        line for line in layout.splitlines() if not line.strip().startswith(("accept", "]"))
    ]
    assert [line for line in kept if line not in new.splitlines()] in ([], [kept[-1]])


def test_a_layout_without_a_place_is_left_alone() -> None:
    """A document in braces is not edited; the message has the entry to write by hand."""
    with pytest.raises(EditError, match=r"by hand:\naccept:\n  - symbol: close\n"):
        with_acceptance('{"id": "x", "alphabet": {"close": {"tool": "t"}}}', CLOSE)


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=12))
def test_whatever_is_written_is_read_back(why: str, who: str) -> None:
    """Reasons and names of any characters come back as they were, or nothing is changed."""
    entry = CLOSE._replace(why=why, who=who)
    try:
        new = with_acceptance(COMMENTED, entry)
    except EditError:
        pytest.fail("a plain layout can be added to")
    read, findings = parse(new, "s.yaml")
    assert read is not None
    assert not has_errors(findings)
    assert read.data["accept"][0]["why"] == why
    assert read.data["accept"][0]["who"] == who
