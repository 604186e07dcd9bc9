"""What is done to a body before it is sent: annotation, and conversion to protobuf."""

from __future__ import annotations

from contextlib import suppress

from collector.forward.annotation import annotated_json, annotated_proto
from collector.forward.message import ForwardMessage
from collector.forward.transcode import to_protobuf
from collector.receive.request import Encoding

__all__ = ["encode"]


def encode(message: ForwardMessage, encodings: frozenset[Encoding]) -> None:
    """Annotates a message where it has marks, and converts it where the next hop does not take its encoding.

    A body that cannot be annotated goes on as it is.

    Raises:
        TranscodeError: the official schema does not allow the body.
    """
    marks, message.marks = message.marks, None
    if marks:
        annotated = annotated_proto if message.encoding == "proto" else annotated_json
        with suppress(ValueError):
            message.body = annotated(message.body, marks)
    if message.encoding not in encodings:
        message.body = to_protobuf(message.signal, message.body)
        message.encoding = "proto"
