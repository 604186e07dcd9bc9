"""A judgement of the kind that a spec asks for."""

from __future__ import annotations

from monitor.session.judge.judge import Judge
from monitor.session.judgement.judgement import Judgement
from monitor.visibility.sight import CLEAR, Sight

__all__ = ["begun"]


def begun(judge: Judge, part: str, sight: Sight = CLEAR) -> Judgement:
    """A judgement without calls, as for `Judgement`."""
    if judge.each is None:
        return Judgement(judge, part, sight)
    # Loaded with the first spec that has things.
    if judge.each.is_shared:
        from monitor.session.things.shared_judgement import SharedThingsJudgement

        return SharedThingsJudgement(judge, part, sight)
    from monitor.session.things.things_judgement import ThingsJudgement

    return ThingsJudgement(judge, part, sight)
