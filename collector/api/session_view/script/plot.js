/* The scores over the calls. */

const LINES = {
  scores: [{ name: 'HarmRate', tone: 'rate', column: 1 }, { name: 'PrefixCrit', tone: 'crit', column: 2 }],
  risk: [{ name: 'risk', tone: 'risk', column: 1 }],
};

function scoresCard(judgement, trail) {
  if (trail.length < 2) return null;
  const harms = new Map(judgement.steps.filter(isHarmful)
    .map((step) => [step.index, `call ${step.index}: ${step.tool}, ${words(step.reason)}`]));
  return el('section', { class: 'card' },
    el('h3', {}, 'Scores over the calls', el('small', { text: 'HarmRate: lower is better. PrefixCrit: higher is better. Dots are harmful calls.' })),
    plot(trail, LINES.scores, harms, 'harm-dot'));
}

function riskCard(judgement, tree) {
  const trail = judgement.steps.filter((step) => step.risk !== null && step.risk !== undefined).map((step) => [step.index, step.risk]);
  if (trail.length < 2 || !tree) return null;
  const departs = new Map(tree.way.filter((step) => step.kind)
    .map((step) => [step.index, `call ${step.index}: ${DEPARTURES[step.kind] ?? words(step.kind)}`]));
  return el('section', { class: 'card' },
    el('h3', {}, 'Risk of failing, after each call', el('small', { text: 'as the learnt runs tell it; dots are departures' })),
    plot(trail, LINES.risk, departs, 'depart-dot', tree.risk_alarm < 1 ? { value: tree.risk_alarm, name: 'alarm' } : null));
}

/** Steps between 0 and 1: a row is [call, value, ...]; `dots` maps a call to what is said of it. */
function plot(trail, lines, dots, tone, limit = null) {
  const wide = Math.max(300, Math.min(1100, $('session').clientWidth - 90));
  const [high, left, right, top] = [170, 34, 122, 12];
  const x = (place) => left + (wide - left - right) * place / (trail.length - 1);
  const y = (value) => top + (high - top - 26) * (1 - value);
  const picture = svg('svg', { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: 'img' });
  const ends = lines.map(({ name, column }) => `${name} ${score(trail.at(-1)[column])}`).join(', ');
  picture.append(svg('title', { text: `Calls ${trail[0][0]} to ${trail.at(-1)[0]}: ${ends}` }));
  for (const value of [0, 0.5, 1]) {
    picture.append(svg('line', { class: 'grid', x1: left, x2: wide - right, y1: y(value), y2: y(value) }));
    picture.append(svg('text', { class: 'soft end', x: left - 8, y: y(value) + 4, text: String(value) }));
  }
  if (limit) {
    picture.append(svg('line', { class: 'limit', x1: left, x2: wide - right, y1: y(limit.value), y2: y(limit.value) }));
    picture.append(svg('text', { class: 'soft', x: left + 4, y: y(limit.value) - 5, text: `${limit.name} from ${+limit.value.toFixed(2)}` }));
  }
  const every = Math.max(1, Math.ceil(trail.length / Math.max(4, Math.floor(wide / 70))));
  trail.forEach((row, place) => {
    if (place % every === 0) picture.append(svg('text', { class: 'soft mid', x: x(place), y: high - 6, text: String(row[0]) }));
  });
  for (const { tone: colour, column } of [...lines].reverse()) {
    const d = trail.map((row, place) => (place ? `H${x(place)}V${y(row[column])}` : `M${x(0)} ${y(row[column])}`)).join('');
    picture.append(svg('path', { class: colour, d }));
  }
  trail.forEach((row, place) => {
    if (!dots.has(row[0])) return;
    const dot = svg('circle', { class: tone, cx: x(place), cy: y(row[1]), r: 5 });
    dot.append(svg('title', { text: dots.get(row[0]) }));
    picture.append(dot);
  });
  endNames(picture, trail.at(-1), lines, wide - right + 9, y);
  return el('div', { class: 'wide' }, picture);
}

/** The lines' names and last values, at their ends, kept apart. */
function endNames(picture, last, lines, x, y) {
  const [first, second] = lines.map(({ column }) => y(last[column]));
  const shift = second !== undefined && Math.abs(first - second) < 14 ? (first <= second ? -8 : 8) : 0;
  lines.forEach(({ name, tone, column }, place) => {
    const away = place ? -shift : shift;
    picture.append(svg('text', { class: `${tone}-text`, x, y: y(last[column]) + 4 + away, text: `${name} ${last[column].toFixed(2)}` }));
  });
}
