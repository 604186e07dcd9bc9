"""The recent steps of a judgement, packed into bytes.

log             puts each step at its place by its time
overlap_groups  which steps overlap, and are judged as one group
asked_together  steps that one answer of a model asked for
rows, call_ids  how a step and its call id are packed
"""
