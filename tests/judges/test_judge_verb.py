"""`offrails judge` against an endpoint on loopback: outcomes, budget, cache, exit codes, and what it prints."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from collector.net.http_client import proxy_of
from judges.judgement_record import OUTCOMES
from judges.models.transport import transport_to
from tests.judges.fake_endpoint import (
    TOKENS_IN,
    TOKENS_OUT,
    Behaviour,
    FakeAnswer,
    FakeEndpoint,
    completion,
    judged,
    obey,
    refused,
    serving,
)

ROOT = Path(__file__).parents[2]
ROVER = str(ROOT / "dfa_specs" / "farm_rover.yaml")
KEYS = [
    "session",
    "judge",
    "judge_version",
    "model",
    "repeat",
    "outcome",
    "score",
    "normalised",
    "criteria",
    "evidence",
    "findings",
    "not_in_trace",
    "seen",
    "tokens_in",
    "tokens_out",
    "cached",
    "contradiction",
    "validated",
]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    """Two plain runs of the rover: s1 is what the user said, s2 to s4 are calls, s5 is the answer."""
    calls = [
        {"tool": "unlock_safety", "arguments": {}, "result": "unlocked"},
        {"tool": "move", "arguments": {"x": 3}, "result": "at 3"},
        {"tool": "water", "arguments": {"field": 3}, "status": "error", "result": "dry"},
    ]
    file = tmp_path / "runs.jsonl"
    runs = [
        {
            "run": name,
            "agent": "farm_rover",
            "prompt": f"water {name}",
            "output": "done",
            "calls": calls,
        }
        for name in ("one", "two")
    ]
    file.write_text("".join(json.dumps(run) + "\n" for run in runs))
    return file


class Printed:
    """What a run printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.err = code, err
        lines = [json.loads(line) for line in out.splitlines()]
        self.records: list[dict[str, Any]] = lines[:-1]
        self.summary: dict[str, Any] = lines[-1]["summary"]

    @property
    def outcomes(self) -> list[str]:
        return [record["outcome"] for record in self.records]


def judge(
    capsys: pytest.CaptureFixture[str], file: Path, endpoint: FakeEndpoint, *options: str
) -> Printed:
    """Runs the verb with `--json`."""
    code = main(
        ["judge", str(file), "--endpoint", endpoint.url, "--model", "fake", "--json", *options]
    )
    return Printed(code, *capsys.readouterr())


def always(answer: FakeAnswer) -> Behaviour:
    return lambda request, number: answer


def once(first: FakeAnswer, then: FakeAnswer) -> Behaviour:
    return lambda request, number: first if number == 1 else then


GOOD = completion(judged(2, "s4"))
MISBEHAVIOURS: Mapping[str, tuple[Behaviour, str, int, int]] = {
    # name: behaviour, outcome, requests of one judgement, exit code
    "slow": (always(completion(judged(), wait=0.3)), "scored", 1, 0),
    "429 once": (once(refused(429, retry_after="0"), GOOD), "scored", 2, 0),
    "a date far off": (
        always(refused(429, retry_after="Fri, 31 Dec 2100 23:59:59 GMT")),
        "failed",
        1,
        1,
    ),
    "over the context": (always(refused(400, "maximum context length")), "failed", 3, 1),
    "half a surrogate pair": (once(completion('"\ud800"'), GOOD), "scored", 2, 0),
    "429 for long": (always(refused(429, retry_after="61")), "failed", 1, 1),
    "timeout": (always(FakeAnswer(hang=True)), "failed", 3, 1),
    "prose": (always(completion("I think it went rather well.")), "unparsable", 2, 1),
    "broken JSON": (always(completion(judged(2, "s4")[:-1] + ",")), "scored", 1, 0),
    "half an answer": (always(completion(judged(2, "s4")[:40])), "unparsable", 2, 1),
    "foreign ids": (always(completion(judged(2, "s4", "s99", "S4"))), "scored", 1, 0),
    "wrong scale": (always(completion(judged(7, "s4"))), "unparsable", 2, 1),
    "contradiction": (always(completion(judged(0))), "scored", 2, 0),
    "refusal": (always(completion(None, refusal="I will not")), "refused", 1, 1),
    "content filter": (always(completion("", "content_filter")), "refused", 1, 1),
    "content filter without a message": (
        always(
            FakeAnswer(b'{"choices": [{"message": null, "finish_reason": "content_filter"}]}')
        ),
        "refused",
        1,
        1,
    ),
    "an error with status 200": (
        always(FakeAnswer(b'{"choices": null, "error": {"message": "no such deployment"}}')),
        "failed",
        3,
        1,
    ),
    "another judge's answer is quoted first": (
        always(completion(f"It says {judged(3)} itself.\nMy answer: {judged(1, 's4')}")),
        "scored",
        1,
        0,
    ),
    "cut off": (always(completion(judged()[:30], "length")), "truncated", 1, 1),
    "endless": (always(FakeAnswer(endless=True)), "failed", 1, 1),
    "closed": (always(FakeAnswer(close=True)), "failed", 3, 1),
    "closed within": (always(FakeAnswer(b'{"choices"', close=True)), "failed", 3, 1),
    "server error": (always(refused(500, retry_after="0")), "failed", 3, 1),
    "no key": (always(refused(401)), "failed", 1, 1),
    "no completion": (always(FakeAnswer(b"[]")), "failed", 3, 1),
}


def seconds_for(behaviour: Behaviour) -> float:
    """Time for an answer: short where none comes, else so long that no slow machine reaches it."""
    return 0.3 if behaviour({}, 1).hang else 60


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_each_misbehaviour_has_its_outcome(
    name: str,
    capsys: pytest.CaptureFixture[str],
    run_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However an endpoint misbehaves, the judgement ends with the outcome that the page documents, and is counted once."""
    monkeypatch.setattr("judges.models.openai_endpoint._PAUSE_SECONDS", 0.01)
    behaviour, outcome, requests, code = MISBEHAVIOURS[name]
    run_file.write_text(run_file.read_text().splitlines()[0])
    with serving(behaviour) as endpoint:
        found = judge(
            capsys,
            run_file,
            endpoint,
            "--judges",
            "TC",
            "--timeout",
            str(seconds_for(behaviour)),
        )
    assert found.outcomes == [outcome]
    assert len(endpoint.requests) == requests
    assert found.code == code
    figures = found.summary["TC"]
    assert figures["asked"] == sum(figures["outcomes"].values()) == 1
    assert list(figures["outcomes"]) == list(OUTCOMES)
    assert bool(found.err) == (code != 0)


def test_a_record_has_the_documented_keys_and_leads_to_spans(
    capsys: pytest.CaptureFixture[str], run_file: Path
) -> None:
    """A finding names the span of its step; one at a step that was not shown stands apart, without a span."""
    with serving(always(completion(judged(1, "s4", "s99")))) as endpoint:
        found = judge(capsys, run_file, endpoint, "--judges", "TC", "--specs", ROVER)
    first = found.records[0]
    assert list(first) == KEYS
    assert (first["session"], first["judge"], first["repeat"]) == ("one", "TC", 1)
    assert (first["score"], first["normalised"]) == (1, 1 / 3)
    assert first["seen"] == {"calls": 3, "of": 3}
    assert [each["span_id"] for each in first["findings"]] == ["0000000000000003"]
    assert [each["step"] for each in first["not_in_trace"]] == ["s99"]
    assert first["not_in_trace"][0]["span_id"] is None
    assert (first["tokens_in"], first["tokens_out"]) == (TOKENS_IN, TOKENS_OUT)
    assert found.summary["TC"]["mean"] == 1


def test_an_endpoint_that_keeps_schemas_cites_no_foreign_step(
    capsys: pytest.CaptureFixture[str], run_file: Path
) -> None:
    """The schema lists the steps that are shown: where it is kept, nothing is outside the trace."""
    with serving(obey) as endpoint:
        found = judge(capsys, run_file, endpoint, "--repeat", "2")
    asked = [record for record in found.records if record["outcome"] == "scored"]
    assert len(asked) == 2 * 2 * 6  # all but PA and PQ: no step states a plan
    assert all(record["findings"] and not record["not_in_trace"] for record in asked)
    assert found.summary["PA"]["outcomes"]["not_applicable"] == 4
    assert found.code == 0
    steps = endpoint.requests[0]["response_format"]["json_schema"]["schema"]["properties"]
    assert steps["findings"]["items"]["properties"]["step"]["enum"] == [
        f"s{n}" for n in range(1, 6)
    ]


def test_a_rung_is_left_only_where_the_endpoint_refuses_it(
    capsys: pytest.CaptureFixture[str], run_file: Path
) -> None:
    """Refused forms are given up for the run, one by one; other errors give up none."""

    def only_text(request: Mapping[str, Any], number: int) -> FakeAnswer:
        return refused() if "response_format" in request else completion(judged())

    with serving(only_text) as endpoint:
        found = judge(capsys, run_file, endpoint, "--judges", "TC", "--at-once", "1")
    forms = [
        request.get("response_format", {}).get("type", "text") for request in endpoint.requests
    ]
    assert forms == ["json_schema", "json_object", "text", "text"]
    assert found.outcomes == ["scored", "scored"]
    with serving(once(refused(403), GOOD)) as endpoint:
        found = judge(
            capsys, run_file, endpoint, "--judges", "TC", "--at-once", "1", "--no-cache"
        )
    assert found.outcomes == ["failed", "scored"]
    assert {request["response_format"]["type"] for request in endpoint.requests} == {
        "json_schema"
    }


def test_newer_models_get_the_newer_name_of_the_limit(
    capsys: pytest.CaptureFixture[str], run_file: Path
) -> None:
    """An endpoint that refuses `max_tokens` and names `max_completion_tokens` keeps its schema."""

    def newer(request: Mapping[str, Any], number: int) -> FakeAnswer:
        text = "Unsupported parameter: use 'max_completion_tokens' instead."
        return refused(400, text) if "max_tokens" in request else GOOD

    with serving(newer) as endpoint:
        found = judge(capsys, run_file, endpoint, "--judges", "TC", "--at-once", "1")
    assert found.outcomes == ["scored", "scored"]
    assert len(endpoint.requests) == 3
    assert endpoint.requests[-1]["response_format"]["type"] == "json_schema"


def test_a_contradiction_is_asked_about_once(
    capsys: pytest.CaptureFixture[str], run_file: Path
) -> None:
    """The second request says what contradicts; an answer that comes right is an ordinary score."""
    run_file.write_text(run_file.read_text().splitlines()[0])
    wrong = completion(judged(3, "s4", impact="high"))
    with serving(once(wrong, completion(judged(1, "s4", impact="high")))) as endpoint:
        found = judge(capsys, run_file, endpoint, "--judges", "TC")
    assert "the score is 3" in endpoint.requests[1]["messages"][-1]["content"]
    assert (found.records[0]["score"], found.records[0]["contradiction"]) == (1, False)
    assert found.records[0]["tokens_in"] == 2 * TOKENS_IN
    with serving(always(wrong)) as endpoint:
        found = judge(capsys, run_file, endpoint, "--judges", "TC")
    assert found.records[0]["contradiction"]
    assert found.summary["TC"]["mean"] is None
    assert found.summary["TC"]["n"] == 1


def test_the_budget_is_exceeded_by_one_answer_at_most(
    capsys: pytest.CaptureFixture[str], run_file: Path
) -> None:
    """What would not fit is not sent: the tokens of all records are those that the endpoint counted, and within the budget."""
    with serving(obey) as endpoint:
        found = judge(
            capsys, run_file, endpoint, "--judges", "TC", "--repeat", "20",
            "--budget-tokens", "2500", "--answer-tokens", "200",
        )  # fmt: skip
    spent = sum(record["tokens_in"] + record["tokens_out"] for record in found.records)
    assert spent == len(endpoint.requests) * (TOKENS_IN + TOKENS_OUT)
    assert 0 < spent <= 2500
    assert found.outcomes.count("over_budget") == 40 - len(endpoint.requests) > 0
    assert found.code == 1


@pytest.mark.parametrize("budget", [9_000, 40_000, 200_000])
def test_a_low_estimate_exceeds_the_budget_by_one_answer_at_most(
    budget: int, capsys: pytest.CaptureFixture[str], run_file: Path
) -> None:
    """Where each byte of prompt and schema is a token, four times the estimate, many requests at once stay bounded, too."""
    used: list[int] = []

    def dear(request: Mapping[str, Any], number: int) -> FakeAnswer:
        size = sum(len(each["content"].encode()) for each in request["messages"])
        size += len(json.dumps(request["response_format"]["json_schema"]["schema"]))
        answer = completion(judged(2, "s4"), wait=0.01)
        body = json.loads(answer.body)
        body["usage"] = {"prompt_tokens": size, "completion_tokens": 200}
        used.append(size + 200)
        return replace(answer, body=json.dumps(body).encode())

    with serving(dear) as endpoint:
        found = judge(
            capsys, run_file, endpoint, "--judges", "TC,LC", "--repeat", "20", "--at-once", "32",
            "--budget-tokens", str(budget), "--answer-tokens", "200",
        )  # fmt: skip
    spent = sum(record["tokens_in"] + record["tokens_out"] for record in found.records)
    assert spent == sum(used) > budget - 2 * max(used)
    assert spent - max(used) <= budget
    assert "over_budget" in found.outcomes


@pytest.mark.parametrize(
    ("lost", "counts"),
    [
        (FakeAnswer(b"no completion"), True),
        (FakeAnswer(close=True), True),
        (FakeAnswer(hang=True), True),
        (refused(500, retry_after="0"), False),
        (refused(401), False),
        (refused(400), False),
    ],
)
def test_a_lost_answer_counts_in_the_budget(
    lost: FakeAnswer,
    counts: bool,
    capsys: pytest.CaptureFixture[str],
    run_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers that may have been charged use the budget up, though nobody says how many tokens; statuses of errors do not."""
    monkeypatch.setattr("judges.models.openai_endpoint._PAUSE_SECONDS", 0.01)
    with serving(always(lost)) as endpoint:
        found = judge(
            capsys, run_file, endpoint, "--judges", "TC", "--repeat", "10",
            "--timeout", "0.2" if lost.hang else "60", "--budget-tokens", "4000", "--answer-tokens", "200",
        )  # fmt: skip
    assert set(found.outcomes) <= {"failed", "over_budget"}
    assert ("over_budget" in found.outcomes) == counts
    assert len(endpoint.requests) < 10 or not counts


def test_an_endpoint_that_is_not_there_uses_no_budget(
    capsys: pytest.CaptureFixture[str], run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens, so nothing was charged: each judgement fails, says why, and none is over the budget."""
    monkeypatch.setattr("judges.models.openai_endpoint._PAUSE_SECONDS", 0.01)
    with serving(always(GOOD)) as endpoint:
        pass
    found = judge(
        capsys, run_file, endpoint, "--judges", "TC", "--repeat", "10",
        "--budget-tokens", "4000", "--answer-tokens", "200",
    )  # fmt: skip
    assert set(found.outcomes) == {"failed"}
    assert (
        "one / TC #1: failed: 3 tries: APIConnectionError: All connection attempts" in found.err
    )


def test_the_timeout_is_ours_and_not_the_clients(
    capsys: pytest.CaptureFixture[str], run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow model may take as long as `--timeout` says, also where the client would give up before."""
    monkeypatch.setattr("openai._base_client.DEFAULT_TIMEOUT", 0.05)
    with serving(always(completion(judged(2, "s4"), wait=0.3))) as endpoint:
        found = judge(capsys, run_file, endpoint, "--judges", "TC", "--timeout", "10")
    assert found.outcomes == ["scored", "scored"]
    assert len(endpoint.requests) == 2


def test_a_cache_that_cannot_be_written_is_told(
    capsys: pytest.CaptureFixture[str], run_file: Path, tmp_path: Path
) -> None:
    """The judgements stand, and standard error says that a second run will ask again."""
    taken = tmp_path / "taken"
    taken.write_text("a file where the folder should be")
    with serving(always(GOOD)) as endpoint:
        found = judge(capsys, run_file, endpoint, "--judges", "TC", "--cache", str(taken))
    assert found.outcomes == ["scored", "scored"]
    assert found.code == 0
    assert found.err.count("answers were not kept") == 1
    assert str(taken) in found.err


def test_a_user_without_a_home_is_no_failure(
    capsys: pytest.CaptureFixture[str], run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container whose user has no home, nothing is kept, and the sessions are judged."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    with serving(always(GOOD)) as endpoint:
        assert judge(capsys, run_file, endpoint, "--judges", "TC").code == 0


def test_money_is_a_budget_too(
    capsys: pytest.CaptureFixture[str], run_file: Path, tmp_path: Path
) -> None:
    """With a file of prices, a sum of money bounds the requests."""
    prices = tmp_path / "prices.yaml"
    prices.write_text("fake: {input: 1000, output: 1000}\n")
    with serving(obey) as endpoint:
        found = judge(
            capsys, run_file, endpoint, "--judges", "TC", "--repeat", "10",
            "--budget-money", "2", "--prices", str(prices), "--answer-tokens", "200",
        )  # fmt: skip
    assert 0 < len(endpoint.requests) * (TOKENS_IN + TOKENS_OUT) / 1000 <= 2
    assert "over_budget" in found.outcomes


def test_answers_that_stand_are_asked_for_once(
    capsys: pytest.CaptureFixture[str], run_file: Path
) -> None:
    """A second run takes what stands from the cache, and asks only for the rest: so a stopped run goes on."""

    def half(request: Mapping[str, Any], number: int) -> FakeAnswer:
        return completion("prose") if number > 2 else GOOD

    with serving(half) as endpoint:
        first = judge(
            capsys, run_file, endpoint, "--judges", "TC", "--at-once", "1", "--repeat", "2"
        )
        asked = len(endpoint.requests)
        again = judge(
            capsys, run_file, endpoint, "--judges", "TC", "--at-once", "1", "--repeat", "2"
        )
        assert len(endpoint.requests) == 2 * asked - 2
        other = judge(capsys, run_file, endpoint, "--judges", "TC", "--temperature", "1")
    assert first.outcomes == ["scored", "scored", "unparsable", "unparsable"]
    assert [record["cached"] for record in again.records] == [True, True, False, False]
    assert (again.records[0]["score"], again.records[0]["tokens_in"]) == (2, 0)
    assert again.records[0]["findings"][0]["span_id"] == "0000000000000003"
    assert not any(record["cached"] for record in other.records)


def test_the_key_comes_from_the_environment_alone(
    capsys: pytest.CaptureFixture[str], run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a key the endpoint is asked without one; with one it is sent, and printed nowhere."""
    with serving(always(refused(401, "bad key"))) as endpoint:
        judge(capsys, run_file, endpoint, "--judges", "TC")
        assert not any("authorization" in each for each in endpoint.headers)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        found = judge(capsys, run_file, endpoint, "--judges", "TC")
    assert endpoint.headers[-1]["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in found.err + json.dumps(found.records)


def test_an_endpoint_on_this_machine_is_asked_without_a_proxy(
    capsys: pytest.CaptureFixture[str], run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy of the environment stands before other hosts: transcripts for a local model do not go through it."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serving(always(GOOD)) as endpoint:
        assert judge(capsys, run_file, endpoint, "--judges", "TC").code == 0
        url = endpoint.url.replace("127.0.0.1", "localhost")
        local = replace(endpoint, url=url)
        assert judge(capsys, run_file, local, "--judges", "TC", "--no-cache").code == 0


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "localhost.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1",
        "models.invalid", "localhost.invalid", "10.1.2.3", "fd00::1",
    ],
)  # fmt: skip
def test_judges_and_sinks_agree_on_what_this_machine_is(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model is asked without the environment's proxy where a webhook of the service is sent without it, and nowhere else."""
    monkeypatch.setenv("http_proxy", "http://p:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    url = f"http://[{host}]:1" if ":" in host else f"http://{host}:1"
    assert (transport_to(host) is not None) == (proxy_of(url) is None)


def test_other_endpoints_are_asked_through_the_proxy_of_the_environment(
    capsys: pytest.CaptureFixture[str], run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client sends to the proxy whatever is not on this machine, unless NO_PROXY names it."""
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serving(always(GOOD)) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        far = replace(proxy, url="http://models.invalid/v1")
        assert judge(capsys, run_file, far, "--judges", "TC").code == 0
    assert {each["host"] for each in proxy.headers} == {"models.invalid"}


def test_a_key_is_taken_without_its_line_end_and_refused_if_it_is_none(
    capsys: pytest.CaptureFixture[str], run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key read from a file often ends with a line end; one that no header can hold is told, and not shown."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\r\n")
    with serving(always(GOOD)) as endpoint:
        assert judge(capsys, run_file, endpoint, "--judges", "TC").code == 0
        assert endpoint.headers[-1]["authorization"] == "Bearer sk-secret"
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secr\u00e9t")
        with pytest.raises(SystemExit) as ended:
            judge(capsys, run_file, endpoint, "--judges", "TC")
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert "OPENAI_API_KEY: expected printable ASCII characters" in err
    assert "secr" not in err


def test_few_shown_calls_make_a_score_partial(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where under 0.8 of the calls fit, the judgement is scored, but stands in no mean."""
    calls = [{"tool": "read", "arguments": {"n": n}, "result": "x" * 400} for n in range(50)]
    file = tmp_path / "long.json"
    file.write_text(json.dumps({"run": "long", "agent": "a", "calls": calls}))
    with serving(obey) as endpoint:
        found = judge(capsys, file, endpoint, "--judges", "TC", "--transcript-tokens", "2000")
    [record] = found.records
    assert record["outcome"] == "partial"
    assert record["score"] is not None
    assert record["seen"]["of"] == 50 > record["seen"]["calls"] > 0
    asked = endpoint.requests[0]["messages"][1]["content"]
    assert "that it is not shown here is no finding" in asked
    assert found.summary["TC"]["mean"] is None
    assert found.code == 0


def test_a_dry_run_prints_the_prompts_and_asks_nobody(
    capsys: pytest.CaptureFixture[str], run_file: Path
) -> None:
    """The prompts are printed whole, the verdicts among them; `--evidence off` leaves these out."""
    base = ["judge", "--dry-run", str(run_file), "--judges", "TC,TQ,PA", "--specs", ROVER]
    assert main(base) == 0
    text = capsys.readouterr().out
    assert '"reason": "out_of_order"' in text or '"kind": "harmful"' in text
    assert "not applicable" in text
    assert re.search(r"<<statuses [0-9a-f]{16}>>\n  \{\"step\": \"s4\"", text)
    assert main([*base, "--evidence", "off"]) == 0
    assert "Facts from the specification" not in capsys.readouterr().out
    assert main(base[:-2]) == 0
    assert "No specification judged this session." in capsys.readouterr().out


def test_the_table_shows_findings_and_figures(
    capsys: pytest.CaptureFixture[str], run_file: Path
) -> None:
    """For people, a line a judgement, what was found at which step, and the figures of the judge."""
    with serving(always(GOOD)) as endpoint:
        code = main(
            [
                "judge",
                str(run_file),
                "--endpoint",
                endpoint.url,
                "--model",
                "m",
                "--judges",
                "TC",
            ]
        )
    text = capsys.readouterr().out
    assert code == 0
    assert "one s4 (0000000000000003) TC low Tool-related: odd" in text
    assert re.search(r"^TC +2 +2 +2\.000", text, re.MULTILINE)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--from", "127.0.0.1:1", "FILE"),
        ("FILE",),
        ("FILE", "--model", "m"),
        ("FILE", "--model", "m", "--endpoint", "127.0.0.1"),
        ("FILE", "--dry-run", "--judges", "XX"),
        ("FILE", "--dry-run", "--repeat", "0"),
        ("FILE", "--dry-run", "--timeout", "0"),
        ("FILE", "--dry-run", "--evidence", "some"),
        ("FILE", "--dry-run", "--instructions", "/nowhere"),
        ("FILE", "--dry-run", "--rubrics", "/nowhere"),
        ("FILE", "--model", "m", "--endpoint", "http://"),
        ("FILE", "--model", "m", "--endpoint", "http://[::1"),
        ("FILE", "--model", "m", "--endpoint", "http://127.0.0.1:port/v1"),
        ("FILE", "--model", "m", "--endpoint", "http://127.0.0.1:99999/v1"),
        ("FILE", "--model", "m", "--endpoint", "http://x", "--budget-money", "1"),
        ("FILE", "--model", "m", "--endpoint", "http://x", "--prices", "/nowhere"),
    ],
)
def test_wrong_usage_ends_with_two(
    options: tuple[str, ...], run_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be meant is refused before anybody is asked."""
    with pytest.raises(SystemExit) as caught:
        main(["judge", *(str(run_file) if each == "FILE" else each for each in options)])
    assert caught.value.code == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("option", ["--rubrics", "--instructions", "--prices", "--compare"])
def test_a_file_that_is_not_there_is_named_once(
    option: str, capsys: pytest.CaptureFixture[str], run_file: Path
) -> None:
    """What is wrong with a file is told as with all others: its name, and why."""
    asked = ("--model", "m", "--endpoint", "http://127.0.0.1:1/v1")
    with pytest.raises(SystemExit) as ended:
        main(["judge", str(run_file), *asked, option, "/none"])
    assert ended.value.code == 2
    assert re.fullmatch(r"offrails: /none: [Nn]o such [a-z ]+\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    "wrong", [("--endpoint", "http://"), ("--prices", "/none"), ("--labels", "/none")]
)
def test_wrong_options_are_told_before_recordings_are_read(
    wrong: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Who has typed an option wrongly does not wait for gigabytes to be read first."""
    (tmp_path / "no.jsonl").write_text("no recording")
    asked = ("--model", "m", "--endpoint", "http://127.0.0.1:1/v1")
    with pytest.raises(SystemExit) as ended:
        main(["judge", str(tmp_path / "no.jsonl"), *asked, *wrong])
    assert ended.value.code == 2
    assert "no.jsonl" not in capsys.readouterr().err


def test_sessions_of_a_running_service_are_judged(
    capsys: pytest.CaptureFixture[str], run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--from` asks the service for its sessions, one by one: their calls are steps, and prevented calls are facts."""
    assert main(["replay", str(run_file), "--specs", ROVER, "--json"]) in {0, 1}
    lines = capsys.readouterr().out.splitlines()
    known = [{**json.loads(line), "spec": "farm_rover"} for line in lines]
    asked: list[str] = []

    def ask(url: str, path: str, token_file: Path | None) -> dict[str, Any]:
        asked.append(path)
        if path.startswith("/api/v1/sessions?"):
            return {"sessions": [{**each, "steps": None} for each in known]}
        here = [
            each for each in known if path.startswith(f"/api/v1/sessions/{each['session']}?")
        ]
        return {"sessions": here, "prevented": [{"tool": "explode", "reason": "forbidden"}]}

    monkeypatch.setattr("collector.offline.judge.judge_sessions.ask", ask)
    assert main(["judge", "--from", "here:1", "--dry-run", "--judges", "TC"]) == 0
    text = capsys.readouterr().out
    assert asked[1:] == [f"/api/v1/sessions/{name}?namespace=" for name in ("one", "two")]
    assert text.count("tool: unlock_safety") == 2
    assert text.count('"prevented": [{"tool": "explode"') == 2


def test_a_key_that_an_endpoint_repeats_is_not_told_on(
    capsys: pytest.CaptureFixture[str], run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint that refuses a key and repeats it in its message does not bring it into what is printed."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-77")
    said = refused(401, "Incorrect API key provided: sk-secret-77.")
    with serving(always(said)) as endpoint:
        found = judge(capsys, run_file, endpoint, "--judges", "TC")
    assert endpoint.headers[0]["authorization"] == "Bearer sk-secret-77"
    assert found.outcomes == ["failed", "failed"]
    assert "Incorrect API key provided: [key]." in found.err
    assert "sk-secret-77" not in found.err + str(found.records)


def test_what_a_gateway_says_with_a_good_status_is_told(
    capsys: pytest.CaptureFixture[str], run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that is an error names the reason, without the key that it may repeat, wherever the text is cut."""
    monkeypatch.setattr("judges.models.openai_endpoint._PAUSE_SECONDS", 0.01)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-77")
    run_file.write_text(run_file.read_text().splitlines()[0])
    for padding in range(200, 300, 7):
        said = FakeAnswer(b'{"error": "no quota' + b"." * padding + b' sk-secret-77"}')
        with serving(always(said)) as endpoint:
            found = judge(capsys, run_file, endpoint, "--judges", "TC")
        assert found.outcomes == ["failed"]
        assert 'no chat completion: {"error": "no quota' in found.err
        assert "sk-s" not in found.err
