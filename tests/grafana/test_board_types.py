"""The boards against the types of @grafana/schema, by the TypeScript compiler.

An extra check that needs node and npm: `make validate-grafana`. A panel's options and field settings
are held to the types of its own kind, the rest to `Dashboard`. What Grafana writes and reads but
its types leave out (a variable's definition, an annotation's query) is named here.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from grafana.build import files

ROOT = Path(__file__).parents[2]
MODULES = ROOT / ".validators" / "node_modules"

KINDS: Final = {
    "bargauge": "BarGauge",
    "heatmap": "Heatmap",
    "stat": "Stat",
    "table": "Table",
    "timeseries": "TimeSeries",
}
HAVE_FIELDS: Final = ("heatmap", "table", "timeseries")
OPTIONAL: Final = "Some<Plain<{name}.Options>>"

PRELUDE: Final = """
import type { AnnotationQuery, Dashboard, DataQuery, Panel, VariableModel } from '@grafana/schema';

// JSON has the values of the enums, not their names.
type Plain<T> = unknown extends T ? T : T extends string ? `${T}` : T extends number | boolean | null | undefined ? T
  : T extends (infer U)[] ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
// The schema's defaults fill what is left out, at any depth.
type Some<T> = unknown extends T ? T : T extends (infer U)[] ? Some<U>[] : T extends object ? { [K in keyof T]?: Some<T[K]> } : T;

// The SDK writes the fields of interval variables with their defaults into every variable.
type Variable = Plain<VariableModel> & { auto?: false; auto_count?: 30; auto_min?: '10s' };
type Annotation = Plain<AnnotationQuery<DataQuery>> & { expr?: string; titleFormat?: string; step?: string };
type Board = Omit<Plain<Dashboard>, 'templating' | 'annotations' | 'panels'> & {
  templating: { list: Variable[] };
  annotations: { list: Annotation[] };
  panels: (Omit<Plain<Panel>, 'options' | 'fieldConfig'> & { collapsed?: boolean; panels?: [] })[];
};
"""


@pytest.fixture(scope="session")
def compiler() -> Path:
    """The TypeScript compiler that `make validate-grafana` installs."""
    found = MODULES / "typescript" / "bin" / "tsc"
    if not found.exists():
        pytest.skip("@grafana/schema is not installed (make validate-grafana, with npm)")
    return found


def complaints(compiler: Path, folder: Path, texts: Mapping[str, str]) -> Mapping[str, str]:
    """The compiler's first message for each file it refuses."""
    (folder / "node_modules").symlink_to(MODULES)
    for name, text in texts.items():
        (folder / name).write_text(PRELUDE + text)
    options = "--noEmit --strict --skipLibCheck --module esnext --moduleResolution bundler"
    command = ["node", str(compiler), *options.split(), "--target", "es2022", *texts]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )
    found = re.findall(r"^(\w+(?:-\w+)?)\.ts\(.*?: (error TS\d+.*)", done.stdout, re.MULTILINE)
    return dict(reversed(found))


def typed(board: Mapping[str, Any]) -> str:
    """A board as a program that compiles where all of it has the right types."""
    return "\n".join(_lines(board))


def _lines(board: Mapping[str, Any]) -> Iterator[str]:
    for name, file in KINDS.items():
        where = f"./node_modules/@grafana/schema/dist/esm/raw/composable/{name}/panelcfg/x/{file}PanelCfg_types.gen"
        yield f"import type * as {name} from '{where}';"
    bare = [
        {key: value for key, value in panel.items() if key not in ("options", "fieldConfig")}
        for panel in board["panels"]
    ]
    yield f"export const board: Board = {json.dumps({**board, 'panels': bare})};"
    for place, panel in enumerate(each for each in board["panels"] if each["type"] != "row"):
        name = panel["type"]
        options = OPTIONAL.format(name=name)
        yield f"export const options{place}: {options} = {json.dumps(panel['options'])};"
        defaults = dict(panel["fieldConfig"]["defaults"])
        custom = defaults.pop("custom", {})
        if name in HAVE_FIELDS:
            yield f"export const custom{place}: Some<Plain<{name}.FieldConfig>> = {json.dumps(custom)};"
        rest = {**panel["fieldConfig"], "defaults": defaults}
        yield f"export const fields{place}: Plain<Panel>['fieldConfig'] = {json.dumps(rest)};"


@pytest.mark.long
def test_boards_have_grafanas_types(compiler: Path, tmp_path: Path) -> None:
    """All four compile, and a wrong value in each part of one does not."""
    boards = {file.stem: json.loads(text) for file, text in files().items()}
    texts = {f"{name}.ts": typed(board) for name, board in boards.items()}
    board = json.dumps(boards["offrails-overview"])
    faults = {
        "graph": ('"graphTooltip": 1', '"graphTooltip": "shared"'),
        "option": ('"colorMode": "value"', '"colorMode": "loud"'),
        "field": ('"drawStyle": "line"', '"drawStyle": "wave"'),
        "steps": ('"mode": "absolute"', '"mode": "relative"'),
        "place": ('"gridPos": {"h"', '"gridPos": {"height"'),
    }
    for name, (right, wrong) in faults.items():
        assert right in board, name
        texts[f"fault_{name}.ts"] = typed(json.loads(board.replace(right, wrong, 1)))
    found = complaints(compiler, tmp_path, texts)
    assert {name: found[name] for name in boards if name in found} == {}
    assert {f"fault_{name}" for name in faults} - set(found) == set()
