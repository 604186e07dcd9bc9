"""Judges: models that read a session's transcript and score it by a rubric (Agent GPA, papers/003).

A judgement by a model is a record of its own, never a verdict: it decides no call and raises no alert.
"""
