"""`serve --print-config` shows no secrets, wherever they are written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from collector.cli.main import main
from collector.config.masking import MASK, as_yaml, masked_url
from collector.config.sources import SettingsError, load

SECRETS = {
    "OFFRAILS_ALERTS_WEBHOOK_URL": "https://bot:pw-1@hooks.example/services/T1/tok-2?key=tok-3#tok-4",
    "OFFRAILS_ALERTS_WEBHOOK_SECRET": "hmac-5",
    "OFFRAILS_ALERTS_ALERTMANAGER": "http://me:pw-6@am.example:9093/am?token=tok-7,https://tok-8@b",
    "OFFRAILS_ALERTS_OTLP_ENDPOINT": "https://logs.example/v1?api-key=tok-9",
    "OFFRAILS_TRACE_URL": "https://u:pw-10@t.example/{trace_id}?span={span_id}&auth=tok-11",
    "OFFRAILS_ALERTS_SESSION_URL": "/s/{session}?sig=tok-12#tok-13",
    "OFFRAILS_ALERTS_RUNBOOK_URL": "https://r.example/{alert}?tok-14",
    "OFFRAILS_ALERTS_WEBHOOK_HTTP_PROXY": "http://me:pw-16@proxy.example:3128",
    "OFFRAILS_ALERTS_OTLP_HTTP_HEADERS": "authorization=tok-17",
    "OFFRAILS_FORWARD": "http://me:pw-18@hop.example:4318/api",
    "OFFRAILS_ARCHIVE_URL": "postgresql://me:pw-19@db.example:5432/history?password=pw-20",
}


def test_no_secret_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """User, password, query, fragment, a webhook's path and its key are masked; the rest is not."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    tokens = tmp_path / "tokens"
    tokens.write_text("edge: tok-15\n")
    monkeypatch.setenv("OFFRAILS_RECEIVER_AUTH_BEARER_TOKENS_FILE", str(tokens))
    assert main(["serve", "--print-config"]) == 0
    told = capsys.readouterr().out
    for number in range(1, 21):
        for kind in ("pw", "tok", "hmac"):
            assert f"{kind}-{number}" not in told.replace("hmac-sha", "")
    found = yaml.safe_load(told)
    assert found["alerts"]["webhook"] == {
        "url": f"https://{MASK}@hooks.example/{MASK}?key={MASK}#{MASK}",
        "secret": MASK,
    }
    assert (
        found["alerts"]["alertmanager"][0] == f"http://{MASK}@am.example:9093/am?token={MASK}"
    )
    assert (
        found["trace_url"]
        == f"https://{MASK}@t.example/{{trace_id}}?span={{span_id}}&auth={MASK}"
    )
    assert found["receiver"]["auth"]["bearer"]["tokens_file"] == str(tokens)


def test_headers_of_next_hops_are_masked(tmp_path: Path) -> None:
    """Their names are shown, their values are not, neither printed nor as Python shows the settings."""
    file = tmp_path / "settings.yaml"
    file.write_text("forward: [{endpoint: http://a:1, headers: {x-key: tok-1}}]\n")
    settings = load(file, {}, {})
    (hop,) = yaml.safe_load(as_yaml(settings))["forward"]
    assert hop["headers"] == {"x-key": MASK}
    assert "tok-1" not in repr(settings)


def test_masked_settings_are_settings(tmp_path: Path) -> None:
    """The printed text is a valid settings file that holds the masks."""
    file = tmp_path / "settings.yaml"
    file.write_text(as_yaml(load(None, SECRETS, {})))
    again = load(file, {}, {})
    assert as_yaml(again) == file.read_text()


def test_refused_settings_keep_their_secrets() -> None:
    """The message about a bad URL does not repeat it."""
    with pytest.raises(SettingsError) as told:
        load(None, {"OFFRAILS_ALERTS_WEBHOOK_URL": "ftp://bot:pw-1@hooks.example/tok-2"}, {})
    assert "pw-1" not in str(told.value)
    assert "tok-2" not in str(told.value)


@given(
    st.from_regex(r"https?://[a-z]{1,8}:SECRET[a-z0-9]{0,9}@h\.example(/[a-z]{0,5}){0,3}", fullmatch=True),
    st.lists(st.from_regex(r"[a-z]{1,4}=SECRET[A-Za-z0-9%+/:.@-]{0,9}", fullmatch=True), max_size=3),
    st.booleans(),
)  # fmt: skip
def test_no_url_keeps_a_secret(url: str, query: list[str], path: bool) -> None:
    """In any URL, password and query values are masked; the host and the names of keys are not."""
    shown = masked_url("?".join(filter(None, (url, "&".join(query)))), path=path)
    assert "SECRET" not in shown
    assert "h.example" in shown
    assert all(each.partition("=")[0] + "=" in shown for each in query)
