/* What models say of a session: beside its verdicts, never among them. */

const OUTCOMES = {
  over_budget: 'not asked: no budget left', failed: 'no answer', refused: 'the model refused', truncated: 'the answer was cut off',
  unparsable: 'no usable answer', not_applicable: 'does not apply', partial: 'of a part of the session', scored: '',
};
const REASON_CHOSEN = { harmful: 'a call was harmful', diverged: 'it left its reference', risk: 'its risk was high', share: 'it was drawn' };
const JUDGED_ASKS = 60;

/** Judgements of the session that is shown; those of an earlier one of its id stand apart. */
const judgedOf = (judgement) => (state.judged ?? []).filter((each) => each.namespace === judgement.namespace
  && each.begun >= judgement.started && each.begun <= judgement.last);

function judgedCard(judgement) {
  const found = judgedOf(judgement);
  if (!found.length) return null;
  const list = el('ol', { class: 'judged', id: 'judged' });
  for (const each of found) list.append(judgedRow(each, judgement));
  return el('section', { class: 'card' },
    el('h3', {}, 'What models say', el('small', { text: `since ${REASON_CHOSEN[found[0].reason] ?? words(found[0].reason)}` })),
    el('p', { class: 'hint', text: 'No verdicts: they are in no score of the session, page nobody and decide no call.' }), list);
}

function judgedRow(judged, judgement) {
  const has = judged.score !== null;
  const row = el('li', {},
    el('span', { class: 'judge', text: judged.judge }),
    el('span', { class: 'points', text: has ? `${judged.score} of 3` : '\u2013' }),
    el('span', { class: 'trust' }, ...trustOf(judged).map(([text, tone]) => el('span', { class: `chip ${tone}`, text }))),
    el('span', { class: 'model', text: judged.model }));
  const said = judged.criteria || judged.evidence;
  if (said) row.append(el('p', { class: 'criteria' }, clean(said, 1200)));
  for (const finding of judged.findings) row.append(findingLine(finding, judgement));
  return row;
}

/** How far a judgement can be trusted, as far as that is known: text and tone of each chip. */
function trustOf(judged) {
  const found = [];
  if (OUTCOMES[judged.outcome] !== '') found.push([OUTCOMES[judged.outcome] ?? words(judged.outcome), 'plain']);
  if (judged.disputed) found.push(['disputed by another model', 'harm']);
  if (judged.contradiction) found.push(['contradicts its findings', 'harm']);
  if (judged.seen.calls < judged.seen.of) found.push([`saw ${judged.seen.calls} of ${plural(judged.seen.of, 'call')}`, 'plain']);
  if (judged.canaries?.of) found.push([`passed ${judged.canaries.passed} of ${judged.canaries.of} canaries`, judged.canaries.passed * 2 > judged.canaries.of ? '' : 'harm']);
  if (!judged.validated) found.push(['never measured against people', 'plain']);
  if (judged.not_in_trace.length) found.push([`${plural(judged.not_in_trace.length, 'finding')} at no step`, 'plain']);
  return found;
}

const textOf = (finding) => `${finding.impact} \u00b7 ${finding.category}: ${finding.what}`;
const callOf = (finding, judgement) => judgement.steps.find((step) => step.span_id === finding.span_id);

function findingLine(finding, judgement) {
  const step = callOf(finding, judgement);
  const line = el('p', { class: 'finding' }, clean(textOf(finding), 600), ' ');
  if (!step) return line;
  const show = el('button', { type: 'button', class: 'to-call', text: `Call ${step.index}` });
  show.addEventListener('click', () => {
    $(`call-${step.index}`)?.scrollIntoView({ block: 'center' });
    $(`call-${step.index}`)?.focus({ preventScroll: true });
  });
  line.append(show);
  return line;
}

/** What models found at one call; nothing where they found nothing. */
function findingsAt(step, judgement) {
  const found = judgedOf(judgement).flatMap((judged) => judged.findings
    .filter((each) => each.span_id === step.span_id).map((each) => [judged, each]));
  if (!found.length) return null;
  return el('div', { class: 'said' }, ...found.map(([judged, each]) => el('p', {},
    el('b', { text: `${judged.judge}${judged.disputed ? ' (disputed)' : ''}: ` }), clean(textOf(each), 600))));
}

/** True while a session that has ended may still be judged: no event tells of it. */
function waitsForJudges(found) {
  if (!found.judged || found.judged.length || !found.sessions.length || found.sessions.some((each) => !each.ended)) return false;
  state.judgedAsks = (state.judgedAsks ?? 0) + 1;
  return state.judgedAsks <= JUDGED_ASKS;
}
