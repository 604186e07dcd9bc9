/* The calls, one by one. */

/** By call, how it departs from the learnt runs, and what was usual there. */
function departuresOf(judgement, tree) {
  const found = new Map();
  for (const step of tree?.way ?? []) if (step.kind) found.set(step.index, { kind: step.kind });
  for (const each of judgement.divergences ?? []) found.set(each.step, each);
  return found;
}

function callsCard(judgement, key, departures) {
  const steps = judgement.steps;
  const begin = Math.min(...steps.map((step) => step.start_ns));
  const end = Math.max(...steps.map((step) => step.end_ns), begin + 1);
  const list = el('ol', { class: 'calls' });
  const before = state.seen.get(key)?.index ?? Infinity;
  for (const step of steps) list.append(callRow(step, judgement, { begin, end }, step.index > before, departures.get(step.index)));
  const took = steps.length ? `${plural(judgement.calls, 'call')} in ${span((end - begin) / 1e6)}` : '';
  return el('section', { class: 'card' }, el('h3', {}, 'Calls', el('small', { text: took })), list);
}

const KIND = { progress: 'progress', self_loop: 'read', harmful: 'harmful', control: 'control' };

function callRow(step, judgement, whole, isNew, departure) {
  const failed = step.error ? ' failed' : '';
  const others = overlapping(step, judgement.steps);
  const bound = others.length ? ` bound ${others[0] > step.index ? 'first' : others.at(-1) < step.index ? 'last' : ''}` : '';
  const row = el('li', { class: `call ${isNew ? 'new' : ''}${bound}` },
    el('span', { class: 'index', text: String(step.index) }),
    el('span', { class: 'tool' }, el('span', { text: step.tool }), el('span', { class: 'given', text: given(step) })),
    kindOf(step, judgement, departure),
    el('span', { class: 'to', text: led(step) + (step.kind === 'self_loop' ? '' : failed) }),
    bars(step, others, whole),
    el('span', { class: 'time', text: `+${span((step.start_ns - whole.begin) / 1e6)}`, title: new Date(step.start_ns / 1e6).toISOString() }));
  if (step.kind === 'harmful') row.append(why(step, judgement));
  else if (step.possible) row.append(whyPossible(step, judgement));
  else if (departure) row.append(whyDeparted(step, judgement, departure));
  return row;
}

function kindOf(step, judgement, departure) {
  if (judgement.spec_kind === 'reference' && step.kind !== 'control') {
    const text = departure ? DEPARTURES[departure.kind] ?? words(departure.kind) : judgement.joined ? 'seen' : 'as usual';
    return el('span', { class: `kind ${departure ? 'departs' : ''}`, text });
  }
  const text = step.kind === 'self_loop' && step.reason ? words(step.reason) : KIND[step.kind] ?? 'seen';
  return el('span', { class: `kind ${step.kind ?? ''}`, text });
}

function given(step) {
  if (!step.arguments) return '';
  const parts = Object.entries(step.arguments).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return clean(`(${parts.join(', ')})`, 160);
}

function led(step) {
  if (step.kind === 'progress') return `\u2192 ${step.state ?? 'several states'}`;
  if (step.kind === 'harmful') return words(step.reason);
  return step.kind === 'self_loop' ? 'stays' : '';
}

const overlapping = (step, steps) => steps.filter((each) => each !== step
  && each.start_ns < step.end_ns && step.start_ns < each.end_ns).map((each) => each.index);

/** The call on the session's time line; calls that were made at the same time are named. */
function bars(step, others, { begin, end }) {
  const share = (ns) => 100 * (ns - begin) / (end - begin);
  const width = Math.max(1.2, share(step.end_ns) - share(step.start_ns));
  const picture = svg('svg', { class: 'lane', viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('rect', { class: 'lane-back', width: 100, height: 10, rx: 1 }),
    svg('rect', { class: `bar ${step.kind ?? 'none'}`, x: Math.min(share(step.start_ns), 100 - width), width, height: 10, rx: 0.6 }));
  const box = el('span', { class: 'bars', title: `took ${span((step.end_ns - step.start_ns) / 1e6)}` }, picture);
  if (others.length) {
    box.append(el('span', { class: 'together', title: 'made at the same time' },
      el('span', { class: 'unseen', text: 'at the same time as call ' }), el('span', { 'aria-hidden': 'true', text: '\u2225 with ' }), brief(others.map(String), 4, 6)));
  }
  return box;
}

function why(step, judgement) {
  const box = el('div', { class: 'why' });
  if (REASONS[step.reason]) box.append(el('p', { text: REASONS[step.reason] }));
  const names = (list) => list.flatMap((name, place) => [place ? ', ' : '', el('bdi', { text: name })]);
  const line = (title, ...rest) => box.append(el('p', {}, el('b', { text: `${title}: ` }), ...rest));
  if (step.constraint) line('Breaks', el('bdi', { text: step.constraint }));
  if (step.skipped.length) line('Skipped', ...names(step.skipped));
  if (step.allowed.length) line('Allowed here', ...names(step.allowed.slice(0, 12)), step.allowed.length > 12 ? ` and ${step.allowed.length - 12} more` : '');
  if (step.certain_call === false) box.append(el('p', { text: 'Some arguments or earlier calls are unknown: the harmful call may be an earlier one.' }));
  const link = traceLink(step, judgement);
  if (link) box.append(link);
  else line('Span', el('bdi', { text: `${step.trace_id} / ${step.span_id}` }));
  if (!step.final) box.append(el('p', { text: 'Not final yet: an earlier call may still arrive.' }));
  return box;
}

/** Why a call is harmful unless its session began before the monitor did. */
function whyPossible(step, judgement) {
  const began = new Date(judgement.unless_began_before / 1e6).toISOString().slice(11, 19);
  const box = why({ ...step, reason: step.possible_reason, constraint: step.possible_constraint, skipped: step.possible_skipped, allowed: step.possible_allowed }, judgement);
  box.prepend(el('p', { text: `Possible: harmful unless this session began before ${began} UTC.` }));
  return box;
}

/** What was usual where a call departs from the learnt runs. */
function whyDeparted(step, judgement, { expected = [], support, write, precision }) {
  const box = el('div', { class: 'why departs' });
  if (expected.length) {
    box.append(el('p', {}, el('b', { text: 'Usual here: ' }), ...expected.slice(0, 8).flatMap((name, place) => [place ? ', ' : '', el('bdi', { text: name })])));
  }
  const facts = [
    support === undefined ? '' : `${plural(support, 'learnt run')} stood here.`,
    write ? 'It changes something.' : '',
    precision === null || precision === undefined ? '' : `Such a departure told of a failure in ${Math.round(precision * 100)} % of cases.`,
  ].filter(Boolean);
  if (facts.length) box.append(el('p', { text: facts.join(' ') }));
  const link = traceLink(step, judgement);
  if (link) box.append(link);
  return box;
}

function traceLink(step, judgement) {
  if (!state.about.trace_url) return null;
  const fill = { trace_id: step.trace_id, span_id: step.span_id, session: judgement.session };
  const href = state.about.trace_url.replace(/\{(trace_id|span_id|session)\}/g, (_, name) => encodeURIComponent(fill[name]));
  if (!/^(https?:\/\/|\/)/.test(href)) return null;
  return el('p', {}, el('a', { class: 'open', href, rel: 'noopener noreferrer', target: '_blank', text: `Open the trace of call ${step.index}` }));
}

function showEmpty() {
  document.title = 'offrails';
  $('session').replaceChildren(el('div', { class: 'empty' }, el('p', {},
    el('b', { text: 'Choose a session' }), 'You see where its agent is, what it did, and why a call was harmful.')));
}

function showGone(wanted) {
  $('session').replaceChildren(
    el('a', { class: 'back', href: '#/', text: '\u2190 All sessions' }),
    el('div', { class: 'empty' }, el('p', {}, el('b', { text: wanted.id }), 'is not known, or no longer.')));
}
