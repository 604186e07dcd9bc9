"""Logging: one JSON object a line, on standard error."""

from __future__ import annotations

import logging
import os
import sys

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from collector.redaction import Redaction

__all__ = ["set_up"]


def set_up(level: str, redaction: Redaction | None = None) -> None:
    """Configures structlog for the process.

    To be called before grpc is imported.

    Args:
        level: a name such as "info".
        redaction: what is taken out of each line.
    """
    hidden = redaction or Redaction()
    # grpc's C core has a log of its own, which is no JSON; what it would say, we say.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Not the values of variables: they may hold tokens, or what an agent said.
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            lambda _logger, _method, event: hidden.shown(event),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelName(level.upper())
        ),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_Relay()], level=logging.WARNING, force=True)


class _Relay(logging.Handler):
    """What libraries log, in our form."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().log(
            record.levelno,
            record.getMessage(),
            logger=record.name,
            exc_info=record.exc_info,
        )
