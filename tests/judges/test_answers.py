"""Answers as models write them, among them those of public bug reports."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.answer import BadAnswerError, read_answer
from judges.rubric import load_rubrics

RUBRICS = load_rubrics()
WHOLE = {
    "evidence": "s2 says ```json {}``` and </think>",
    "findings": [{"step": "s2", "category": "c", "impact": "High", "what": "w"}],
    "criteria": "c",
    "score": 1,
}
GOOD = json.dumps(WHOLE)

READ = {
    "as it is": GOOD,
    "in a fence": f"```json\n{json.dumps(WHOLE, indent=1)}\n```",
    "after prose": f"Here is my judgement:\n{GOOD}",
    "before prose": f"{GOOD}\nThis JSON object holds my judgement.",
    "after thoughts": f"<think>{{maybe 3}} or [2]?</think>\n{GOOD}",
    "after thoughts without their tag": f"1. The user asks {{x}}.\n</think>{GOOD}",
    "with a comma too much": GOOD[:-1] + ",}",
    "without its last brace": GOOD[:-1],
    "with single quotes": "{'evidence': 'e', 'findings': [{'step': 's2', 'category': 'c', 'impact': 'high', 'what': 'w'}], 'criteria': 'c', 'score': 1}",
    "with a score that is a float": GOOD.replace('"score": 1', '"score": 1.0'),
}

BAD = {
    "nothing": "",
    "thoughts alone": "<think>The score is 3.",
    "a bare score": "3",
    "a list": "[1, 2]",
    "a score as text": GOOD.replace('"score": 1', '"score": "1"'),
    "a score that is true": GOOD.replace('"score": 1', '"score": true'),
    "a share": GOOD.replace('"score": 1', '"score": 0.7'),
    "another scale": GOOD.replace('"score": 1', '"score": 10'),
    "no score": json.dumps({**WHOLE, "score": None}),
    "another impact": GOOD.replace("High", "critical"),
    "findings as text": json.dumps({**WHOLE, "findings": "none"}),
    "a finding as text": json.dumps({**WHOLE, "findings": ["s2"]}),
    "a step as number": GOOD.replace('"s2"', "2"),
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("name", READ)
def test_answers_are_read_in_the_forms_that_models_give_them(name: str) -> None:
    """Fences, prose, thoughts and small faults of JSON do not hide an answer."""
    found = read_answer(READ[name], RUBRICS["TC"])
    assert (found.score, found.criteria) == (1, "c")
    assert [(each.step, each.impact) for each in found.findings] == [("s2", "high")]


@pytest.mark.parametrize("name", BAD)
def test_other_answers_are_refused(name: str) -> None:
    """No score is made up from an answer that has none on the scale."""
    with pytest.raises(BadAnswerError):
        read_answer(BAD[name], RUBRICS["TC"])


def test_only_judges_of_plans_may_say_that_nothing_is_to_judge() -> None:
    """PA and PQ may be not applicable; of others, the field has no meaning."""
    text = json.dumps({**WHOLE, "applicable": False})
    assert not read_answer(text, RUBRICS["PA"]).applicable
    assert read_answer('{"applicable": false}', RUBRICS["PQ"]).score == 0
    assert read_answer(text, RUBRICS["TC"]).applicable


@given(st.text(max_size=200) | st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(WHOLE)), inner, max_size=4)).map(json.dumps))  # fmt: skip
def test_no_answer_breaks_the_reader(text: str) -> None:
    """Whatever comes, it is an answer on the scale, or refused."""
    try:
        found = read_answer(text, RUBRICS["PA"])
    except BadAnswerError:
        return
    assert found.score in {0, 1, 2, 3}
