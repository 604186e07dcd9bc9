"""The file of `--token-file` is read as the service reads its own: a line is a token, or a name and a token."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.client.api_client import NoAnswerError, bearer
from collector.receive.bearer_tokens import Tokens


@pytest.mark.parametrize(
    "line", ["t-1", "ada: t-1", "ada: t:1", "t/1:2", "ada:t==", "#x\n\n t-1 "]
)
def test_the_service_knows_what_is_sent(tmp_path: Path, line: str) -> None:
    """Colons may be in a token: with one file, service and client agree on it."""
    file = tmp_path / "tokens"
    file.write_text(f"# who is on call\n{line}\n")

    assert Tokens(file).sender(bearer(file)) in ("", "ada")


def test_a_file_without_a_token_is_told(tmp_path: Path) -> None:
    """A comment is no token."""
    file = tmp_path / "tokens"
    file.write_text("# none yet\n\n")

    with pytest.raises(NoAnswerError, match="there is no token in it"):
        bearer(file)
