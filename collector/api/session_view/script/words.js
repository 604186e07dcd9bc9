/* Verdicts, rules, departures and endings in the words of somebody who has never read the paper. */

const REASONS = {
  forbidden: 'A rule forbids this call.',
  failed_call: 'The call failed, and a failed call counts as harmful here.',
  unknown_tool: 'The task knows no such tool.',
  argument_mismatch: 'The tool is known, but not with these arguments.',
  after_final: 'The task was already done; nothing more should have been called.',
  out_of_order: 'It came too early: something else had to be done first.',
  repeated: 'It had been done already, and must not be done again.',
  unreachable: 'From here on, this call is never allowed.',
};

const DEPARTURES = {
  wrong_tool: 'another tool', wrong_arguments: 'other arguments', extra: 'extra call', missing: 'left something out',
};

const ALARMS = {
  new_write_tool: 'It wrote by a tool that no learnt run wrote by',
  new_arguments: 'It wrote with arguments of no learnt run',
  missing_write: 'It never wrote what every learnt run wrote',
  first_two: 'Its first two calls are not the usual ones',
  divergence: 'It left the learnt runs',
  risk: 'It looks like runs that failed',
};
const MODES = { page: 'pages', shadow: 'shadow: pages nobody' };

/** Reasons that count spans and not calls. */
const OF_SPANS = new Set(['duplicate', 'no_dialect', 'span_missing']);

const LEVELS = { page: 'worth a page', hint: 'a hint', advisory: 'advice' };

const ENDINGS = {
  idle: 'ended: no call for a long time', explicit: 'ended by its agent', evicted: 'ended: pushed out by newer sessions',
  input_end: 'ended with its recording', unknown: 'ended with an earlier process of the monitor',
};

/** The verdict in one sentence, and what it means: the first thing to read of a session. */
function verdict(judgement, spec) {
  const verdictOf = { task: taskVerdict, policy: policyVerdict, reference: referenceVerdict }[judgement.spec_kind];
  if (!verdictOf) return null;
  const [tone, headline, rest] = verdictOf(judgement, spec);
  const shade = tone === 'good' && judgement.steps.some((step) => step.possible) ? 'warn' : tone;
  return el('div', { class: `verdict ${shade}` }, el('p', {}, el('b', { text: headline }), rest ? ` ${rest}` : ''), because(judgement));
}

/** The first of the harmful calls with the worst severity. */
function worstStep(steps) {
  const order = (step) => SEVERITY_ORDER.indexOf(step.severity);
  return steps.filter(isHarmful).reduce((worst, step) => (worst === undefined || order(step) > order(worst) ? step : worst), undefined);
}

/** Why the worst call was harmful, how bad that is, and whom it wakes. */
function because(judgement) {
  const last = worstStep(judgement.steps) ?? judgement.steps.findLast((step) => step.possible);
  if (!last) return null;
  const show = el('button', { type: 'button', id: 'show-harm', text: `Show call ${last.index}` });
  show.addEventListener('click', () => {
    $(`call-${last.index}`)?.scrollIntoView({ block: 'center' });
    $(`call-${last.index}`)?.focus({ preventScroll: true });
  });
  const caveat = last.possible ? `Possible, not certain: call ${last.index}, ${clean(last.tool, 60)}. ` : '';
  return el('p', { class: 'because' }, caveat + (REASONS[last.reason] ?? `${words(last.reason)}.`), ' ',
    last.detail ? el('span', { class: 'detail' }, ...sentence(last.detail), '. ') : null,
    last.severity ? el('span', { class: `level ${last.severity}`, text: last.severity }) : null,
    el('span', { class: 'level', text: MODES[judgement.mode] ?? words(judgement.mode) }), show);
}

const certain = (judgement) => (judgement.exact ? '' : ' for certain');

function harmText(judgement) {
  const last = worstStep(judgement.steps);
  const many = `${judgement.harmful} of ${plural(judgement.calls, 'call')} ${judgement.harmful === 1 ? 'was' : 'were'} harmful${certain(judgement)}`;
  return last ? `${many}; ${judgement.harmful === 1 ? 'it was' : 'the worst:'} call ${last.index}, ${clean(last.tool, 60)} (${words(last.reason)}).` : `${many}.`;
}

function taskVerdict(judgement) {
  const done = judgement.accepting ? 'The task is done.'
    : judgement.ended ? 'It ended before the task was done.' : 'The task goes on.';
  if (judgement.harmful) return ['harm', harmText(judgement), done];
  if (judgement.ended && !judgement.accepting) return ['warn', done, `No call was harmful${certain(judgement)}.`];
  return ['good', `No harmful call${judgement.ended ? '' : ' so far'}.`, done];
}

function policyVerdict(judgement) {
  const owed = judgement.unsatisfied.length;
  const open = !owed ? '' : judgement.ended
    ? `${plural(owed, 'rule')} still asked for something when it ended.`
    : `${plural(owed, 'rule')} still ${owed === 1 ? 'asks' : 'ask'} for something before the end.`;
  if (judgement.harmful) return ['harm', harmText(judgement), open];
  return [owed && judgement.ended ? 'warn' : 'good', `No rule broken${judgement.ended ? '' : ' so far'}.`, open];
}

function referenceVerdict(judgement) {
  const note = 'A reference calls nothing harmful; it says where a session leaves what was usual.';
  const first = judgement.divergence;
  if (judgement.joined) return ['plain', 'Its first calls were not seen, so it is compared with what was ever written alone.', note];
  if (!first) return ['good', `As in the learnt runs${judgement.ended ? '' : ' so far'}.`, note];
  return ['warn', `Not as in the learnt runs from call ${first.step} on: ${departureText(judgement, first)}.`, note];
}

function departureText(judgement, { step, kind, expected }) {
  const tool = clean(judgement.steps.find((each) => each.index === step)?.tool ?? '', 60);
  const usual = expected.slice(0, 3).map((name) => clean(name, 40)).join(' or ');
  if (!tool) return step > judgement.calls ? `it ended where ${usual} was usual` : DEPARTURES[kind] ?? words(kind);
  if (kind === 'wrong_arguments') return `${tool} with arguments that no learnt run gave it there`;
  if (kind === 'extra' || !usual) return `${tool}, where no learnt run called it`;
  return kind === 'missing' ? `${tool}, but ${usual} was left out` : `${tool}, where ${usual} was usual`;
}

/** What is not known of a session, what that does to its numbers, and what would help. */
function unknowns(judgement) {
  const found = [];
  const lenient = judgement.spec_kind === 'reference' ? '' : ' Only what is wrong however one reads it counts as harmful, and scores, which would be guesses, are left out.';
  if (judgement.joined) found.push(['Joined in the middle.', `This session may have begun before it was first seen here, so where it stands is not known for sure.${lenient}`]);
  else if (!judgement.exact) found.push(['Not all of it was told.', `Some calls can be read in more than one way, most often because their arguments were not in the spans.${lenient}`]);
  if (judgement.bound_late) found.push(['Recognised late.', 'Which spec goes with it was learnt after its first calls.']);
  if (judgement.steps_folded) found.push(['Long.', `The first ${plural(judgement.steps_folded, 'call')} are in every number, but no longer kept one by one.`]);
  if (!judgement.spec) found.push(['Not judged.', 'No spec matches this session, so its calls are only shown. A spec says in `match` which sessions it is for.']);
  for (const each of judgement.missed ?? []) {
    const what = each.kind === 'stalled' ? 'It stands still.' : 'It can no longer finish.';
    found.push([what, `Since call ${each.step}: ${each.detail ?? words(each.reason)}.`]);
  }
  const why = Object.entries(judgement.coverage?.not_judged ?? {}).filter(([reason]) => !OF_SPANS.has(reason));
  const missed = why.reduce((sum, [, count]) => sum + count, 0);
  if (missed) found.push([`${plural(missed, 'call')} not judged, or not for certain:`, `${why.map(([reason]) => words(reason)).join(', ')}.`]);
  return found;
}
