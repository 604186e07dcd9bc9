/* The numbers of a session, each with what it means. */

/** A number; its meaning shows while it is pointed at, or has the focus. */
function tile(name, value, tone, ...meaning) {
  const id = `meaning-${name.replace(/[^A-Za-z]/g, '-')}`;
  const tip = meaning.length ? el('span', { class: 'meaning', role: 'tooltip', id }, ...meaning) : null;
  return el('div', meaning.length ? { tabindex: '0', id: `tile-${id}`, 'aria-describedby': id } : {},
    el('dt', {}, name, tip), el('dd', { class: tone, text: value }));
}

function scoreTile(name, value, tone, label = name) {
  const [sentence, formula] = SCORES[name];
  return tile(label, value, tone, el('span', { text: sentence }), el('span', { class: 'formula', text: formula }), el('span', { class: 'letters', text: LETTERS }));
}

function tiles(judgement) {
  return el('dl', { class: 'tiles' }, ...harmTiles(judgement), ...pathTiles(judgement), ...referenceTiles(judgement), ...stateTiles(judgement));
}

function harmTiles(judgement) {
  const harmful = judgement.harmful ?? 0;
  const tone = harmful ? 'harm' : 'good';
  const found = [tile('calls', String(judgement.calls), '')];
  if (judgement.harmful !== null) found.push(scoreTile('H', String(harmful), harmful ? 'harm' : '', 'harmful'));
  if (judgement.harm_rate === null) return found;
  return [...found, scoreTile('HarmRate', score(judgement.harm_rate), tone), scoreTile('PrefixCrit', score(judgement.prefix_crit), tone)];
}

function pathTiles(judgement) {
  if (judgement.pc === null || judgement.pc === undefined) return [];
  const known = Object.entries(SCORES).filter(([, [, , field]]) => field && judgement[field] !== null);
  return known.map(([name, [, , field]]) => scoreTile(name, score(judgement[field]), ''));
}

function referenceTiles(judgement) {
  const found = [];
  if (judgement.risk !== null && judgement.risk !== undefined) {
    const alarmed = judgement.alarms.some((each) => each.alarm === 'risk');
    found.push(tile('risk of failing', score(judgement.risk), alarmed ? 'warn' : '', `0 to 1, as the learnt runs tell it.${ceiling(judgement)}`));
  }
  if (judgement.agent_record) found.push(recordTile(judgement));
  if (judgement.divergences) {
    const { length } = judgement.divergences;
    found.push(tile('departures', String(length), length ? 'warn' : 'good', 'Calls that are not as in the learnt runs.'));
  }
  if (judgement.surprise !== null && judgement.surprise !== undefined) found.push(surpriseTile(judgement));
  return found;
}

/** What the risk cannot see, even of a run that is over. */
function ceiling({ risk_ceiling: area }) {
  return area === undefined ? '' : ` With the whole run it ranks ${Math.round(100 * area)} % of failed above successful runs; the rest cannot be seen in calls.`;
}

/** What is known of the agent before its first call: apart from the risk, which is of the run. */
function recordTile({ agent_record: { successes, failures, risk }, risk_with_record: both }) {
  const count = successes + failures;
  return tile('the agent elsewhere', score(risk), '', `The agent failed ${failures} of ${count} runs at other tasks. With that for a prior the risk is ${score(both)}.`);
}

function surpriseTile({ surprise, surprise_percentile: percentile }) {
  const among = percentile === null ? '' : ` Of 100 learnt runs, ${Math.round(percentile)} are less surprising.`;
  return tile('surprise', `${surprise.toFixed(2)} bits`, percentile === 100 ? 'warn' : '', `Bits a call: how unlikely its path is among the learnt runs.${among}`);
}

/** What usual runs do next, while the session goes on. */
function likelyLine(judgement) {
  const likely = judgement.likely_next ?? [];
  if (!likely.length) return null;
  return el('p', { class: 'soft likely' }, 'Likely next: ',
    ...likely.flatMap(({ tool, share }, place) => [place ? ', ' : '', el('bdi', { text: clean(tool, 60) }), ` ${Math.round(100 * share)} %`]));
}

function stateTiles(judgement) {
  if (judgement.spec_kind !== 'task') return [];
  const where = judgement.state ?? (judgement.position.length ? `${judgement.position.length} possible` : 'anywhere');
  const tone = `word ${where.length > 8 ? 'long' : ''} ${judgement.accepting ? 'good' : ''}`;
  return [tile(judgement.ended ? 'ended in' : 'now in', where, tone, judgement.accepting ? 'A state in which the task is done.' : 'The task is not done here.')];
}
