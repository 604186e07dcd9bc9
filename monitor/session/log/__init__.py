"""The recent steps of a judgement, packed into bytes."""
