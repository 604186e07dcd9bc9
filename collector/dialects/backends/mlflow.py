"""MLflow's tracing: its own keys, each value a JSON text."""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import mapping

__all__ = ["MLFLOW"]

MLFLOW = Dialect(
    name="mlflow",
    when=("mlflow.spanType",),
    unless=("gen_ai.tool.name",),
    values={"mlflow.spanType": frozenset({'"TOOL"'})},
    span_name="(?P<tool>.+)",
    arguments=(ArgumentSource("mlflow.spanInputs", mapping),),
)
