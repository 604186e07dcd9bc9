"""The picture in ARCHITECTURE.md shows the layers that the import contracts check."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def layers(contract: str) -> list[list[str]]:
    """The layers of a contract, top first, each with its folders and modules."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    lines = parser[f"importlinter:contract:{contract}"]["layers"].split("\n")
    return [re.split(r" [|:] ", line.strip()) for line in lines if line.strip()]


def drawn(package: str) -> list[list[str]]:
    """The same as drawn in the page: a name, two spaces or more, and its contents."""
    picture = (ROOT / "ARCHITECTURE.md").read_text().split("```")[1]
    block = picture.split(f"\n{package}\n")[1].split("\n\n")[0].rstrip("\n")
    return [re.split(r"\s{2,}", line.strip())[0].split(" | ") for line in block.split("\n")]


@pytest.mark.parametrize(
    "package", ["collector", "harness", "judges", "monitor", "offrails_guard"]
)
def test_the_picture_is_the_contract(package: str) -> None:
    """Every layer is drawn, in its order, and nothing else is."""
    assert drawn(package) == layers(package)


@pytest.mark.parametrize(
    "package", ["collector", "harness", "judges", "monitor", "offrails_guard"]
)
def test_every_folder_is_in_a_layer(package: str) -> None:
    """No folder or module of a package is left out of its contract."""
    here = ROOT / package
    found = {each.stem for each in here.glob("*.py") if each.stem != "__init__"}
    found |= {each.parent.name for each in here.glob("*/__init__.py")}
    assert found == {name for layer in layers(package) for name in layer}
