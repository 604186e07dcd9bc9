/* The calls, one by one. */

/** By call, how it departs from the learnt runs, and what was usual there. */
function departuresOf(judgement, tree) {
  const found = new Map();
  for (const step of tree?.way ?? []) if (step.kind) found.set(step.index, { kind: step.kind });
  for (const each of judgement.divergences ?? []) found.set(each.step, each);
  return found;
}

/** The harmful calls and the latest ones; all of them on request. */
function shownSteps(steps) {
  if (state.allCalls) return steps;
  return steps.filter((step, place) => place >= steps.length - CALLS_SHOWN || isHarmful(step) || step.possible);
}

function callsCard(judgement, key, departures, redraw) {
  const steps = judgement.steps;
  const begin = Math.min(...steps.map((step) => step.start_ns));
  const end = Math.max(...steps.map((step) => step.end_ns), begin + 1);
  const list = el('ol', { class: 'calls' });
  const before = state.seen.get(key)?.index ?? Infinity;
  const shown = shownSteps(steps);
  for (const step of shown) list.append(callRow(step, judgement, { begin, end }, step.index > before, departures.get(step.index)));
  const took = steps.length ? `${plural(judgement.calls, 'call')} in ${span((end - begin) / 1e6)}` : '';
  return el('section', { class: 'card' }, el('h3', {}, 'Calls', el('small', { text: took })),
    argumentsHint(), moreCalls(steps.length - shown.length, redraw), list);
}

function argumentsHint() {
  if (state.about.show_arguments !== false) return null;
  return el('p', { class: 'hint' }, 'Arguments are not shown: start the service with ',
    el('code', { text: '--show-arguments' }), ' ', copyButton('copy-arguments', 'offrails serve --show-arguments', 'the command that shows arguments'));
}

function moreCalls(count, redraw) {
  if (!count) return null;
  const button = el('button', { type: 'button', id: 'all-calls', text: `Show ${plural(count, 'earlier call')}` });
  button.addEventListener('click', () => { state.allCalls = true; redraw(); });
  return el('p', { class: 'hint' }, button);
}

/** What is only possible is no harm: it is in no score. */
const isHarmful = (step) => step.kind === 'harmful' && !step.possible;
/** Of a call that is possibly harmful: the reading in which it is. */
function readingOf(step) {
  if (!step.possible) return {};
  return {
    reason: step.possible_reason ?? step.reason, constraint: step.possible_constraint ?? step.constraint,
    detail: step.possible_detail ?? step.detail, skipped: step.possible_skipped ?? step.skipped, allowed: step.possible_allowed ?? step.allowed,
  };
}
const toneOf = (step) => (step.possible ? 'possible' : step.kind ?? 'none');

const KIND = { progress: 'progress', self_loop: 'read', harmful: 'harmful', control: 'control' };

function callRow(step, judgement, timeline, isNew, departure) {
  const failed = step.error ? ' failed' : '';
  const others = overlapping(step, judgement.steps);
  const bound = others.length ? ` bound ${others[0] > step.index ? 'first' : others.at(-1) < step.index ? 'last' : ''}` : '';
  const row = el('li', { id: `call-${step.index}`, tabindex: '-1', class: `call ${isNew ? 'new' : ''}${bound}` },
    el('span', { class: 'index', text: String(step.index) }),
    el('span', { class: 'tool' }, el('span', { text: step.tool }), el('span', { class: 'given', text: argumentsText(step) })),
    kindOf(step, judgement, departure),
    el('span', { class: 'to', text: outcomeText(step) + (step.kind === 'self_loop' ? '' : failed) + (step.overruled ? ' \u00b7 was denied' : '') }),
    timeBar(step, others, timeline),
    el('span', { class: 'time', text: `+${span((step.start_ns - timeline.begin) / 1e6)}`, title: exactly(step.start_ns) }),
    copyButton(`copy-trace-${step.index}`, step.trace_id, `the trace id of call ${step.index}`));
  if (step.possible) row.append(whyPossible(step, judgement));
  else if (isHarmful(step)) row.append(why(step, judgement));
  else if (departure) row.append(whyDeparted(step, judgement, departure));
  const said = findingsAt(step, judgement);
  if (said) row.append(said);
  return row;
}

function kindOf(step, judgement, departure) {
  if (judgement.spec_kind === 'reference' && step.kind !== 'control') {
    const text = departure ? DEPARTURES[departure.kind] ?? words(departure.kind) : judgement.joined ? 'seen' : 'as usual';
    return el('span', { class: `kind ${departure ? 'departs' : ''}`, text });
  }
  if (step.possible) return el('span', { class: 'kind possible', text: 'possible' });
  const text = step.kind === 'self_loop' && step.reason ? words(step.reason) : KIND[step.kind] ?? 'seen';
  return el('span', { class: `kind ${step.kind ?? ''}`, text });
}

function argumentsText(step) {
  if (!step.arguments) return '';
  const parts = Object.entries(step.arguments).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return clean(`(${parts.join(', ')})`, 160);
}

function outcomeText(step) {
  if (step.possible) return words(step.reason);
  if (step.kind === 'progress') return `\u2192 ${step.state ?? 'several states'}`;
  if (step.kind === 'harmful') return words(step.reason);
  return step.kind === 'self_loop' ? 'stays' : '';
}

const overlapping = (step, steps) => steps.filter((each) => each !== step
  && each.start_ns < step.end_ns && step.start_ns < each.end_ns).map((each) => each.index);

/** The call on the session's time line; calls that were made at the same time are named. */
function timeBar(step, others, { begin, end }) {
  const share = (ns) => 100 * (ns - begin) / (end - begin);
  const width = Math.max(1.2, share(step.end_ns) - share(step.start_ns));
  const picture = svg('svg', { class: 'lane', viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('rect', { class: 'lane-back', width: 100, height: 10, rx: 1 }),
    svg('rect', { class: `bar ${toneOf(step)}`, x: Math.min(share(step.start_ns), 100 - width), width, height: 10, rx: 0.6 }));
  const box = el('span', { class: 'bars', title: `took ${span((step.end_ns - step.start_ns) / 1e6)}` }, picture);
  if (others.length) {
    box.append(el('span', { class: 'together', title: 'made at the same time' },
      el('span', { class: 'unseen', text: 'at the same time as call ' }), el('span', { 'aria-hidden': 'true', text: '\u2225 with ' }), brief(others.map(String), 4, 6)));
  }
  return box;
}
