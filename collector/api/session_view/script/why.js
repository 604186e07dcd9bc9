/* Why a call was harmful, may have been, or is not as in the learnt runs. */

function why(step, judgement) {
  const box = el('div', { class: 'why' });
  if (REASONS[step.reason]) box.append(el('p', { text: REASONS[step.reason] }));
  if (step.detail) box.append(detailOf(step));
  box.append(...rulesOf(step));
  if (step.severity) box.append(line('Severity', words(step.severity)));
  if (step.certain_call === false) box.append(el('p', { text: 'Some arguments or earlier calls are unknown: the harmful call may be an earlier one.' }));
  box.append(whereToLook(step, judgement));
  if (!step.final) box.append(el('p', { text: 'Not final yet: an earlier call may still arrive.' }));
  return box;
}

/** Harmful in one reading of what is known, and not in all. */
function whyPossible(step, judgement) {
  const box = el('div', { class: 'why possible' });
  box.append(el('p', {}, el('b', { text: possibleText(judgement) }), ` ${REASONS[step.reason] ?? words(step.reason)}`));
  if (step.detail) box.append(detailOf(step));
  box.append(...rulesOf(step));
  box.append(el('p', { text: 'It counts in no score.' }));
  box.append(whereToLook(step, judgement));
  return box;
}

/** What would make a possible harm none, by `unless` of the judgement. */
const UNLESS = {
  started: ({ unless_began_before: began }) => `this session began before ${clockTimeUtc(began)}`,
  resumed: () => 'it goes on with calls that another session has',
  outage: () => 'calls were missed while the monitor was down',
  refused: () => 'calls are missing whose spans were refused',
  lost: () => 'calls are missing whose spans were lost',
  silent_tool: () => 'a call was made that left no span',
  repeated_within: () => 'a call was made more than once',
  unplaced: () => 'it lacks a call whose conversation is not known',
  mistimed: () => 'calls were made in another order than their times say',
  turn_unknown: () => 'it belongs to another turn than the calls before it',
  doubted_calls: () => 'one of its calls is not what it seems',
};

function possibleText(judgement) {
  const found = (judgement.unless ?? []).filter((each) => UNLESS[each]).map((each) => UNLESS[each](judgement));
  return found.length ? `Possible: harmful unless ${found.join(', or ')}.` : 'Possible, not certain:';
}

const detailOf = ({ detail }) => el('p', { class: 'detail' }, ...sentence(detail));
const line = (title, ...rest) => el('p', {}, el('b', { text: `${title}: ` }), ...rest);
const names = (list) => list.flatMap((name, place) => [place ? ', ' : '', el('bdi', { text: name })]);

function rulesOf({ constraint, skipped = [], allowed = [] }) {
  const found = [];
  if (constraint) found.push(line('Breaks', el('bdi', { text: constraint })));
  if (skipped.length) found.push(line('Skipped', ...names(skipped)));
  if (allowed.length) found.push(line('Allowed here', ...names(allowed.slice(0, 12)), allowed.length > 12 ? ` and ${allowed.length - 12} more` : ''));
  return found;
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
  box.append(whereToLook(step, judgement));
  return box;
}
