"""Generates the reference pages from the code's own tables, so they are never out of date.

python -m docs.reference_pages settings > docs/settings.md
python -m docs.reference_pages metrics  > docs/metrics.md
python -m docs.reference_pages openapi  > docs/openapi.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from collector.api.openapi import admin_routes
from collector.config.environment import ENVIRONMENT
from collector.config.section import Leaf, leaves
from collector.config.settings.forward import NextHopSettings
from collector.config.settings.http_client import HttpClientSettings
from collector.config.settings.settings import Settings
from collector.decide.openapi import decide_routes
from collector.metrics.registry import runtime
from collector.metrics.service_table import TABLE
from collector.net.openapi import ApiParameter, ApiRoute

__all__ = ["metrics", "openapi", "settings"]


def settings() -> str:
    """The page of settings: key, variable, default, meaning."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, path in ENVIRONMENT.items():
        names.setdefault(path, []).append(f"`{name}`")
    rows = [
        f"| `{'.'.join(path)}` | {', '.join(sorted(names[path], key=len))} | {_shown(default)} | {text} |"
        for path, default, text in leaves(Settings)
    ]
    head = (
        "# Settings\n\n"
        "Settings come from a YAML file (`offrails serve --config FILE`, or `OFFRAILS_CONFIG`). `OFFRAILS_*`\n"
        "variables override the file, options override both. Unknown keys are refused. An unknown variable is\n"
        "refused if it resembles one below or belongs to a section below; others are logged. In a variable, a\n"
        "list is comma separated, a list of paths is separated as in `PATH`; empty parts are ignored.\n\n"
        "| key | variable | default | meaning |\n|---|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n" + _next_hops()


def _next_hops() -> str:
    """The keys of one entry of `forward`, which no variable sets one by one."""
    rows = [
        f"| `forward[].{'.'.join(path)}` | {_shown(default)} | {text} |"
        for path, default, text in sorted(leaves(NextHopSettings), key=_endpoint_first)
    ]
    head = (
        "\n## Next hops\n\n"
        "`forward` is a list. An entry is a mapping with these keys, or the endpoint alone.\n\n"
        "| key | default | meaning |\n|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def _endpoint_first(leaf: Leaf) -> bool:
    """Sorts a next hop's own settings before those of every HTTP client."""
    return leaf.path[0] in HttpClientSettings.model_fields


def _shown(default: Any) -> str:
    if default is PydanticUndefined:
        return "required"
    if default in ((), "", None, {}, SecretStr("")):
        return ""
    if isinstance(default, bool):
        return "`true`" if default else "`false`"
    if isinstance(default, tuple):
        return ", ".join(f"`{part}`" for part in default)
    return f"`{default:.15g}`" if isinstance(default, float) else f"`{default}`"


def openapi() -> str:
    """The page of both OpenAPI documents: every method of every path, its parameters and its answers."""
    head = (
        "# Every path of the API\n\n"
        "`GET /api/v1/openapi.json` at the admin listener is this page as OpenAPI 3.1, for generators of clients and for\n"
        "Swagger UI; with `?listener=decide` it is the document of the listener for decisions. Both are made from the code, and\n"
        "tests ask a running service whatever they allow. [api.md](api.md) says what the answers mean.\n"
    )
    return (
        head
        + _routes("Admin listener", admin_routes())
        + _routes("Listener for decisions", decide_routes())
    )


def _routes(title: str, routes: Iterable[ApiRoute]) -> str:
    text = f"\n## {title}\n"
    for route in routes:
        text += f"\n### {route.method} {route.path}\n\n{route.meaning}.\n"
        if route.parameters:
            rows = [
                f"| `{each.name}` | {_kind(each)} | {each.meaning} |"
                for each in route.parameters
            ]
            text += (
                "\n| parameter | value | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
            )
        if route.body is not None:
            text += f"\nThe body is JSON: {_fields(route.body)}.\n"
        rows = [
            f"| {status} | {each.meaning} | {_fields(each.schema or {})} |"
            for status, each in sorted(route.answers.items())
        ]
        text += "\n| status | meaning | fields |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    return text


def _kind(parameter: ApiParameter) -> str:
    words = parameter.schema.get("enum")
    return ", ".join(f"`{each}`" for each in words) if words else str(parameter.schema["type"])


def _fields(schema: Mapping[str, Any]) -> str:
    """The fields of an object in one line; of several, those of each."""
    for many in ("anyOf", "oneOf"):
        if many in schema:
            return "; or ".join(_fields(each) for each in schema[many])
    return ", ".join(f"`{name}`" for name in schema.get("properties", {}))


def metrics() -> str:
    """The page of metrics: name, type, labels, meaning."""
    rows = [
        f"| `offrails_{name}{'_total' if row.kind == 'counter' else ''}` | {row.kind} "
        f"| {', '.join(row.labels)} | {row.help} |"
        for name, row in TABLE.items()
    ]
    rows += [
        f"| `{each.samples[0].name}` | {each.type} | {', '.join(each.samples[0].labels)} "
        f"| {each.documentation} |"
        for each in runtime().collect()
    ]
    head = (
        "# Metrics\n\n"
        "`GET /metrics` answers in OpenMetrics or the text format, as the scraper requests. Session ids are\n"
        "never labels; `/api/v1/sessions` has them. A mean without sessions has no sample.\n\n"
        "Families by agent and spec also have the label `namespace` where it is not empty: the token's name,\n"
        "`service.namespace` and `deployment.environment.name` of the calls (`sessions.namespace_attributes`).\n"
        "A series keeps its labels as long as the process lives. With `metrics_namespace_label: never` all\n"
        "namespaces are summed, so the means of one tenant contain another's sessions. A scraper with its own\n"
        "label `namespace`, as in Kubernetes, needs `honor_labels` and must drop its own label. Otherwise\n"
        "its label is on the series without a namespace, but not on direct alerts.\n\n"
        "| name | type | labels | meaning |\n|---|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n" + PUSHED + EMBEDDED


PUSHED = """
## Pushed over OTLP

`telemetry.otlp_endpoint` names an OTLP/HTTP receiver to which the service pushes its own metrics every
`telemetry.interval_seconds`, and once more when it stops. It needs `offrails[otlp]`. All families are pushed but those
by agent and spec; `telemetry.pairs: true` adds these. Counters are cumulative sums and have no `_total` in their names.
The resource has `service.name` (offrails), `service.version`, `service.instance.id`, and what
`OTEL_RESOURCE_ATTRIBUTES` adds.

A thread encodes and sends, so spans are judged during a push. A push of 2,000 pairs takes seconds of CPU time and may delay
verdicts by about 10 ms. A failed push is logged and counted in `offrails_telemetry_pushes_total{result="failed"}`. It is
not repeated, because the next push has newer values.

### Traces

`telemetry.traces: true` has spans of the service's own work pushed to the same receiver:

| span | of | attributes (`offrails.*`) |
|---|---|---|
| `offrails.request` | a trace request whose body was read | transport, bytes, spans, rejected, status |
| `offrails.delivery` | one attempt to send messages to a sink | sink, messages |
| `offrails.scrape` | one answer of `/metrics` | open_metrics, bytes |
| `offrails.reload` | one reading of the specs | trigger, specs, changed |

Each span is a trace of its own. A span of work that failed has the status ERROR and the reason. No attribute holds data of
agents.

`telemetry.traces_ratio` (0.01) is the share of requests that have a span. Each kind has at most `telemetry.traces_per_second`
(10) spans a second, with bursts of as many. The others are counted in `offrails_telemetry_spans_total{result="dropped"}`.
The SDK's thread sends spans every 5 seconds (`OTEL_BSP_SCHEDULE_DELAY`), and once more when the service stops. Traces
take about 11 MB of memory. If traces are off, nothing is loaded, and a request costs one more comparison.

The receiver may be an offrails, or the service itself. The resource of these spans has `offrails.own_telemetry: true`.
These spans are no tool calls, so none is judged. A service makes no span for a request that holds only such spans,
so its spans cause no further spans.
"""


EMBEDDED = """
## In your own process

A program that embeds the library can register the families of its monitor (scores, sessions, calls and specs)
with prometheus-client:

```python
from prometheus_client import CollectorRegistry, generate_latest

from monitor import Monitor, MonitorCollector, load_spec

monitor = Monitor([load_spec("dfa_specs/farm_rover.yaml")])
registry = CollectorRegistry()
registry.register(MonitorCollector(monitor))
text = generate_latest(registry)
```

A monitor is not thread-safe. If another thread serves the metrics, as prometheus-client's
`start_http_server` does, give the collector the lock that guards the monitor: `MonitorCollector(monitor, lock)`. With the
span processor of `offrails[sdk]`, use `processor.lock`.
"""


PAGES: Mapping[str, Any] = {"settings": settings, "metrics": metrics, "openapi": openapi}

if __name__ == "__main__":
    sys.stdout.write(PAGES[sys.argv[1]]())
