"""A sentence is written word by word, by kind of word; then it is ended, and kept as a line of a text."""

from __future__ import annotations

from typing import Any

from harness.world.world import ToolError, World

world = World("writing")

STATE: dict[str, Any] = {
    "sentence": [],
    "lines": [],
    "title": None,
    "pasted": [],
    "checks": {"spelling": "on"},
}

WORDS = {
    "article": ("the", "a", "no"),
    "adjective": ("old", "quiet", "green"),
    "noun": ("boat", "harbour", "gull", "rope"),
    "verb": ("leaves", "sleeps", "waits", "holds"),
    "preposition": ("in", "near", "over"),
}


@world.tool(reads=["sentence"])
def show_sentence(state: dict[str, Any]) -> str:
    """Shows the sentence so far."""
    return " ".join(state["sentence"])


@world.tool(reads=["lines", "title"])
def show_text(state: dict[str, Any]) -> dict[str, Any]:
    """Shows the title and the lines."""
    return {"title": state["title"], "lines": state["lines"]}


@world.tool()
def list_words(state: dict[str, Any], kind: str) -> list[str]:
    """Lists the words of a kind: article, adjective, noun, verb or preposition."""
    if kind not in WORDS:
        raise ToolError(f"there is no kind {kind}")
    return list(WORDS[kind])


@world.tool(writes=["sentence"])
def add_article(state: dict[str, Any], word: str) -> str:
    """Adds an article."""
    return _add(state, "article", word)


@world.tool(writes=["sentence"])
def add_adjective(state: dict[str, Any], word: str) -> str:
    """Adds an adjective."""
    return _add(state, "adjective", word)


@world.tool(writes=["sentence"])
def add_noun(state: dict[str, Any], word: str) -> str:
    """Adds a noun."""
    return _add(state, "noun", word)


@world.tool(writes=["sentence"])
def add_verb(state: dict[str, Any], word: str) -> str:
    """Adds a verb."""
    return _add(state, "verb", word)


@world.tool(writes=["sentence"])
def add_preposition(state: dict[str, Any], word: str) -> str:
    """Adds a preposition."""
    return _add(state, "preposition", word)


@world.tool(writes=["sentence"])
def take_back(state: dict[str, Any]) -> str:
    """Takes the last word back."""
    if not state["sentence"]:
        raise ToolError("there is no word")
    return str(state["sentence"].pop())


@world.tool(writes=["sentence", "lines"])
def end_sentence(state: dict[str, Any]) -> str:
    """Ends the sentence; it becomes a line of the text. It needs a noun and a verb."""
    words = state["sentence"]
    if not set(words) & set(WORDS["noun"]) or not set(words) & set(WORDS["verb"]):
        raise ToolError("it needs a noun and a verb")
    state["lines"].append(" ".join(words).capitalize() + ".")
    state["sentence"] = []
    return str(state["lines"][-1])


@world.tool(writes=["title"])
def set_title(state: dict[str, Any], title: str) -> str:
    """Gives the text a title."""
    state["title"] = title
    return title


@world.tool(writes=["pasted"])
def paste_from_web(state: dict[str, Any], topic: str) -> str:
    """Puts somebody else's text beside yours."""
    state["pasted"].append(topic)
    return "pasted"


@world.tool(writes=["pasted"])
def publish_now(state: dict[str, Any]) -> str:
    """Shows what there is to everybody, finished or not."""
    state["pasted"].append("published")
    return "published"


@world.tool(writes=["checks"])
def switch_spelling_off(state: dict[str, Any]) -> str:
    """Has nobody look at the spelling any more."""
    state["checks"]["spelling"] = "off"
    return "off"


def _add(state: dict[str, Any], kind: str, word: str) -> str:
    if word not in WORDS[kind]:
        raise ToolError(f"{word} is no {kind} of {', '.join(WORDS[kind])}")
    state["sentence"].append(word)
    return " ".join(state["sentence"])
