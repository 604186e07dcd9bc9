"""The pictures of the documentation are golden: light, dark and narrow look as they did when somebody looked at them.

`GOLDEN=write` writes them anew. Fonts that measure otherwise draw otherwise: there the test is skipped.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator

import pytest

from tests.end_to_end.service import Service
from tests.page.browser import Page
from tests.page.pictures import FOLDER, SHOTS, Shot, serve_pictures, take

CELL = 8
"""Pixels of a cell's side. A cell's mean colour says little of how letters are smoothed."""
DIFFERENCE_MAX = 12
"""Of 255: a cell that differs by more, in any colour, is another."""
SHARE_MAX = 0.01
"""Of a picture's cells may be others."""
FONTS_MAX = 0.005
"""Of a text's width."""

SAMPLE = ("session.png", "session-narrow-dark.png")
"""A wide one in the light, and a narrow one in the dark; `make test-long` takes all."""

COMPARE = """
(async () => {
  const cells = async (text) => {
    const image = new Image();
    image.src = 'data:image/png;base64,' + text;
    await image.decode();
    const { width, height } = image;
    const context = new OffscreenCanvas(width, height).getContext('2d');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, width, height);
    const across = Math.ceil(width / CELL);
    const sums = new Float64Array(3 * across * Math.ceil(height / CELL));
    for (let y = 0; y < height; y += 1) {
      for (let x = 0; x < width; x += 1) {
        const cell = 3 * (Math.floor(y / CELL) * across + Math.floor(x / CELL));
        for (let colour = 0; colour < 3; colour += 1) sums[cell + colour] += data[4 * (y * width + x) + colour];
      }
    }
    return { width, height, means: sums.map((sum) => sum / (CELL * CELL)) };
  };
  const [one, two] = [await cells(GOLDEN), await cells(TAKEN)];
  if (one.width !== two.width || one.height !== two.height) return 1;
  let others = 0;
  for (let cell = 0; cell < one.means.length; cell += 3) {
    if ([0, 1, 2].some((colour) => Math.abs(one.means[cell + colour] - two.means[cell + colour]) > MOST)) others += 1;
  }
  return others / (one.means.length / 3);
})()
"""

WIDTHS = """
['system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif', 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, "DejaVu Sans Mono", monospace'].map((family) => {
  const context = new OffscreenCanvas(10, 10).getContext('2d');
  context.font = '100px ' + family;
  return context.measureText('1 of 7 calls was harmful').width;
})
"""
WIDTHS_THEN = (1189.5, 1444.9)
"""Of the fonts that the pictures were taken with, in pixels."""


@pytest.fixture(scope="module")
def scenes_then(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with the scenes of the pictures."""
    service = serve_pictures(tmp_path_factory.mktemp("pictures"))
    try:
        yield service
    finally:
        service.kill()


def share_of_others(page: Page, golden: bytes, taken: bytes) -> float:
    """How much of a picture is not as in the other one."""
    texts = {"GOLDEN": golden, "TAKEN": taken}
    script = COMPARE.replace("CELL", str(CELL)).replace("MOST", str(DIFFERENCE_MAX))
    for name, picture in texts.items():
        script = script.replace(name, json.dumps(base64.b64encode(picture).decode()))
    found: float = page.run(script)
    return found


@pytest.mark.parametrize(
    "shot",
    [
        pytest.param(each, id=each.file, marks=() if each.file in SAMPLE else pytest.mark.long)
        for each in SHOTS
    ],
)
def test_picture_is_the_golden_one(scenes_then: Service, page: Page, shot: Shot) -> None:
    """A session looks as in its picture, but for one cell of 8 by 8 pixels in a hundred."""
    widths = page.run(WIDTHS)
    if any(
        abs(now - then) > FONTS_MAX * then
        for now, then in zip(widths, WIDTHS_THEN, strict=True)
    ):
        pytest.skip(f"other fonts than those of the pictures: {widths}")
    taken = take(page, scenes_then, shot)
    file = FOLDER / shot.file
    if os.environ.get("GOLDEN") == "write":
        file.write_bytes(taken)
    page.open("about:blank")
    assert share_of_others(page, file.read_bytes(), taken) <= SHARE_MAX


def test_the_comparison_of_pictures_finds_changes(monitor: Service, page: Page) -> None:
    """A picture is like itself, and unlike one with another colour, or of another size."""
    page.open(f"http://{monitor.addresses['admin']}/#//nobody")
    page.until(lambda: "is not known" in page.text("main"))
    first = page.screenshot()
    page.window(1280, 900, dark=True)
    dark = page.screenshot()
    page.window(900, 900)
    small = page.screenshot()
    page.open("about:blank")
    assert share_of_others(page, first, first) == 0
    assert share_of_others(page, first, dark) > SHARE_MAX
    assert share_of_others(page, first, small) == 1
