"""What the server on grpcio keeps out of the log."""

from __future__ import annotations

import logging

import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined]

import collector.receive.grpc.grpcio_server  # noqa: F401 - filters what the core logs


def test_a_client_that_left_before_its_answer_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The core logs a batch that failed where it has not seen yet that the client has gone; all else is told."""
    logger = logging.getLogger("grpc._cython.cygrpc")
    for error in (cygrpc.ExecuteBatchError("failed"), ValueError("a fault")):
        logger.error("raised by servicer method", exc_info=error)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]
