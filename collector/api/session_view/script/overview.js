/* The overview: agents and specs over time, the worst sessions first. Every figure leads to the sessions behind it. */

const RANGES = { day: ['Last 24 hours', 86400, 'hour'], week: ['Last 7 days', 604800, 'day'], month: ['Last 30 days', 2592000, 'day'] };
const STEP_NAMES = { hour: 'by hour', day: 'by day', week: 'by week' };
const SEVERITY_ORDER = ['info', 'warning', 'critical'];
/** Filters of the list by which the figures are narrowed, too. */
const NARROWED_BY = ['agent', 'spec', 'namespace', 'spec_version', 'service_version'];

let askedOverview = 0;

function overviewQuery() {
  const query = new URLSearchParams();
  const [, seconds] = RANGES[state.last];
  if (state.last !== 'week') query.set('since', String(Math.floor(Date.now() / 3600000) * 3600000 - seconds * 1000) + NANOSECONDS);
  if (state.by) query.set('step', state.by);
  for (const name of NARROWED_BY) if (valueOf(name)) query.set(name, valueOf(name));
  const text = query.toString();
  return text ? `?${text}` : '';
}

async function loadOverview() {
  if (state.chosen || state.bare || comparison()) return;
  const number = askedOverview += 1;
  try {
    const found = await ask(`api/v1/overview${overviewQuery()}`);
    if (number === askedOverview && !state.chosen && !state.bare && !comparison()) showOverview(found);
  } catch (problem) {
    noAnswer(problem);
  }
}

/** The address of the list with these filters, at the sessions of that time. */
function sessionsAt(filters, span = null) {
  const query = new URLSearchParams();
  for (const name of NARROWED_BY) if (valueOf(name)) query.set(name, valueOf(name));
  for (const [name, value] of Object.entries(filters)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  if (span) {
    query.set('from', fieldTime(span.begin));
    query.set('to', fieldTime(span.end));
  } else query.set('age', String(RANGES[state.last][1]));
  if (state.last !== 'week') query.set('last', state.last);
  return `?${query}#/sessions`;
}

/** A link within the page: the filters it names are set, and nothing is loaded anew. */
function inner(href, props, ...children) {
  const link = el('a', { ...props, href }, ...children);
  link.addEventListener('click', (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState(null, '', href);
    readFilters();
    showUsed();
    refreshNow();
    choose();
  });
  return link;
}

const figure = (value, href, tone = '') => inner(href, { class: `figure ${value ? tone : ''}`, text: typeof value === 'number' ? value.toLocaleString('en') : value });

function showOverview(found) {
  const main = $('session');
  const focused = main.contains(document.activeElement) ? document.activeElement.id : '';
  const top = main.scrollTop;
  main.replaceChildren(...[
    overviewHead(), overviewNotes(found), headline(found), totals(found), timelineCard(found),
    worstCard(found), figuresCard('Agents', found.agents, found.agents_more, agentCells),
    figuresCard('Specs', found.specs, found.specs_more, specCells, SPEC_HEADS), whyCard(found), unjudgedCard(found),
  ].filter((each) => each !== null));
  main.scrollTop = top;
  if (focused) $(focused)?.focus({ preventScroll: true });
  document.title = 'offrails';
}

function overviewHead() {
  const range = el('div', { class: 'tabs', role: 'group', 'aria-label': 'Time' });
  for (const [name, [label]] of Object.entries(RANGES)) {
    const button = el('button', { type: 'button', id: `last-${name}`, 'aria-pressed': String(state.last === name), text: label });
    button.addEventListener('click', () => { state.last = name; state.by = ''; writeFilters(); loadOverview(); });
    range.append(button);
  }
  const step = el('select', { id: 'by', 'aria-label': 'Step' });
  const shown = state.by || RANGES[state.last][2];
  for (const [value, label] of Object.entries(STEP_NAMES)) step.append(el('option', { value, text: label }));
  step.value = shown;
  step.addEventListener('change', () => { state.by = step.value === RANGES[state.last][2] ? '' : step.value; writeFilters(); loadOverview(); });
  const narrowed = NARROWED_BY.filter(valueOf).map((name) => `${words(name)} ${valueOf(name)}`);
  return el('div', { class: 'head overview' }, el('h2', { text: 'Overview' }),
    narrowed.length ? el('p', { text: `Of ${narrowed.join(', ')} alone` }) : null, el('div', { class: 'choices' }, range, step));
}

function overviewNotes(found) {
  const notes = [];
  if (found.archive_error) notes.push(['Past sessions are missing.', found.archive_error]);
  if (!found.archive) notes.push(['Only what the monitor still has.', 'Half an hour after its end a session is gone. `archive.dir` keeps past sessions.']);
  if (!notes.length) return null;
  return el('div', { class: 'note', role: 'note' }, ...notes.map(([title, text]) => el('p', {}, el('b', { text: title }), ...sentence(` ${text}`))));
}

/** The worst of it in one sentence. */
function headline({ total, worst }) {
  const first = worst[0];
  const harm = first?.worst_harm;
  if (!total.sessions) return el('div', { class: 'verdict' }, el('p', {}, el('b', { text: 'No session in this time.' })));
  if (!total.harmed_sessions) return el('div', { class: 'verdict good' }, el('p', {}, el('b', { text: `No harmful call in ${plural(total.sessions, 'session')}.` })));
  const count = `${total.harmed_sessions.toLocaleString('en')} of ${plural(total.sessions, 'session')} had a harmful call.`;
  if (!harm) return el('div', { class: 'verdict harm' }, el('p', {}, el('b', { text: count })));
  return el('div', { class: 'verdict harm' },
    el('p', {}, el('b', { text: count }), ' The worst: ', el('a', { href: hashOf(first.namespace, first.session), id: 'worst', text: `${harm.tool}, ${words(harm.reason)}` }), ` by ${clean(first.agent, 60)} `, level(harm.severity)));
}

const level = (severity) => el('span', { class: `level ${severity}`, text: severity });

function totals({ total }) {
  const tiles = [
    ['sessions', total.sessions, {}, ''], ['with harm', total.harmed_sessions, { only: 'harmful' }, 'harm'],
    ['calls', total.calls, {}, ''], ['harmful calls', total.harmful, { only: 'harmful' }, 'harm'],
    ['possible', total.possible, {}, 'warn'], ['prevented', total.prevented, {}, ''],
    ['not judged', total.not_judged, {}, 'warn'],
    ['HarmRate', score(total.harm_rate), { sort: 'harm_rate' }, ''], ['PrefixCrit', score(total.prefix_crit), { sort: 'prefix_crit' }, ''],
  ];
  return el('dl', { class: 'tiles wider' }, ...tiles.map(([name, value, filters, tone]) => el('div', {},
    el('dt', { text: name }), el('dd', {}, figure(value, sessionsAt(filters), tone)))));
}

function table(heads, rows) {
  const body = el('tbody', {}, ...rows.map((cells) => el('tr', {}, ...cells.map((cell, place) => (place ? el('td', { class: heads[place][1] }, cell) : el('th', { scope: 'row' }, ...cell))))));
  const head = el('thead', {}, el('tr', {}, ...heads.map(([name, kind]) => el('th', { scope: 'col', class: kind, text: name }))));
  return el('div', { class: 'wide' }, el('table', { class: 'figures' }, head, body));
}

const FIGURE_HEADS = [['sessions', ''], ['with harm', ''], ['calls', 'more'], ['harmful', ''], ['possible', 'more'], ['prevented', 'more'], ['HarmRate', ''], ['PrefixCrit', 'more']];
const SPEC_HEADS = [...FIGURE_HEADS, ['right', 'more']];

function figureCells(row, filters) {
  const at = (more) => sessionsAt({ ...filters, ...more });
  return [
    figure(row.sessions, at({})), figure(row.harmed_sessions, at({ only: 'harmful' }), 'harm'), figure(row.calls, at({})),
    figure(row.harmful, at({ only: 'harmful' }), 'harm'), figure(row.possible, at({}), 'warn'), figure(row.prevented, at({})),
    figure(score(row.harm_rate), at({ sort: 'harm_rate' })), figure(score(row.prefix_crit), at({ sort: 'prefix_crit' })),
  ];
}

function agentCells(row) {
  const filters = { agent: row.agent, namespace: row.namespace };
  const name = [row.namespace, row.agent].filter(Boolean).join(' / ');
  return [[inner(sessionsAt(filters), { text: name }), ' ', versionsLink('agent', row.agent)], ...figureCells(row, filters)];
}

function specCells(row) {
  const name = row.in_use ? row.id : `${row.id} (not in use)`;
  return [[inner(sessionsAt({ spec: row.id }), { text: name }), ' ', versionsLink('spec', row.id)], ...figureCells(row, { spec: row.id }), rightCell(row)];
}

/** How often people say that the spec was right to call a session harmful, over the last 30 days. */
function rightCell({ precision, labels }) {
  const known = precision !== null && precision !== undefined;
  return el('span', { class: 'figure', title: 'Share of labelled sessions with a harmful call, of the last 30 days, whose verdict people call right',
    text: known ? `${Math.round(precision * 100)} % of ${labels.right + labels.wrong}` : '-' });
}

const versionsLink = (kind, name) => inner(`${location.search || '?'}${compareHash(kind, name)}`, { class: 'aside', 'aria-label': `Versions of ${clean(name, 60)}`, text: 'versions' });

function figuresCard(title, rows, more, cells, heads = FIGURE_HEADS) {
  if (!rows.length) return null;
  return el('section', { class: 'card' }, el('h3', { text: title }), table([[title.slice(0, -1).toLowerCase(), ''], ...heads], rows.map(cells)),
    more ? el('p', { class: 'hint', text: `${plural(more, 'more')}: see /api/v1/${title.toLowerCase()}.` }) : null);
}

function worstCard({ worst }) {
  const seen = new Map();
  for (const row of worst) {
    const key = JSON.stringify([row.namespace, row.session, row.started]);
    const best = seen.get(key);
    if (!best || worstOf([best, row]) === row.worst_harm) seen.set(key, row);
  }
  const rows = [...seen.values()].filter((row) => row.worst_harm);
  if (!rows.length) return null;
  return el('section', { class: 'card' }, el('h3', { text: 'Worst sessions' }), el('ol', { class: 'worst' }, ...rows.map((row) => el('li', {},
    level(row.worst_harm.severity), ' ', el('a', { href: hashOf(row.namespace, row.session), text: clean(row.session, 60) }),
    ` ${clean(row.agent, 60)}: ${clean(row.worst_harm.tool, 60)}, ${words(row.worst_harm.reason)} `, el('small', { text: ago(row.last) })))));
}

function whyCard({ reasons, tools, severities }) {
  if (!reasons.length) return null;
  return el('section', { class: 'card' }, el('h3', {}, 'Why', el('small', { text: 'sessions with a harmful call that has it' })), el('div', { class: 'columns' },
    ranking('Reasons', reasons, (name) => ({ reason: name })), ranking('Tools', tools, (name) => ({ tool: name, only: 'harmful' })),
    ranking('Severities', severities, (name) => ({ severity: name }))));
}

function ranking(title, rows, filters) {
  const most = Math.max(...rows.map((row) => row.sessions));
  return el('div', {}, el('h4', { text: title }), el('ol', { class: 'ranking' }, ...rows.map((row) => el('li', {},
    inner(sessionsAt(filters(row.name)), {}, el('span', { text: words(row.name) }), el('meter', { min: 0, max: most, value: row.sessions, 'aria-hidden': 'true' }), el('b', { text: row.sessions.toLocaleString('en') }))))));
}

function unjudgedCard({ unjudged, unmatched }) {
  if (!unjudged.length && !unmatched.length) return null;
  const card = el('section', { class: 'card' }, el('h3', { text: 'Not judged' }));
  if (unjudged.length) {
    card.append(el('p', { class: 'hint', text: 'Agents whose sessions no spec matches:' }), el('ul', { class: 'chips' }, ...unjudged.map((row) => el('li', {},
      inner(sessionsAt({ agent: row.agent, namespace: row.namespace, only: 'unjudged' }), { class: 'chip plain', text: `${row.agent}: ${plural(row.sessions, 'session')}, ${plural(row.calls, 'call')}` })))));
  }
  if (unmatched.length) {
    card.append(el('p', { class: 'hint', text: 'Specs that no session matches:' }), el('ul', { class: 'chips' }, ...unmatched.slice(0, CHOICES_MAX).map((id) => el('li', {},
      inner(sessionsAt({ spec: id }), { class: 'chip plain', text: id })))));
  }
  return card;
}

/* --- over time ------------------------------------------------------------------------------ */

function timelineCard({ steps, step }) {
  if (!steps.some((each) => each.calls)) return null;
  return el('section', { class: 'card' }, el('h3', {}, `Over time, ${STEP_NAMES[step]}`,
    el('small', {}, el('span', { class: 'legend' }, el('span', { class: 'swatch rate' }), 'HarmRate'), ' ',
      el('span', { class: 'legend' }, el('span', { class: 'swatch crit' }), 'PrefixCrit'), ' ', 'bars: calls, harmful ones red; times in UTC')), timeline(steps, step));
}

function timeline(steps, step) {
  const wide = Math.max(300, Math.min(1100, $('session').clientWidth - 70));
  const [high, left, right, top] = [190, 34, 12, 12];
  const bottom = high - 24;
  const gap = (wide - left - right) / steps.length;
  const most = Math.max(1, ...steps.map((each) => each.calls));
  const y = (value) => top + (bottom - top) * (1 - value);
  const picture = svg('svg', { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: 'img' });
  const harmful = steps.reduce((sum, each) => sum + each.harmful, 0);
  picture.append(svg('title', { text: `${plural(harmful, 'harmful call')}, ${plural(steps.length, 'step')}` }));
  for (const value of [0, 0.5, 1]) {
    picture.append(svg('line', { class: 'grid', x1: left, x2: wide - right, y1: y(value), y2: y(value) }), svg('text', { class: 'soft end', x: left - 8, y: y(value) + 4, text: String(value) }));
  }
  const every = Math.max(1, Math.ceil(steps.length / Math.max(3, Math.floor(wide / 90))));
  steps.forEach((each, place) => {
    const x = left + gap * place;
    const bar = (count, tone) => svg('rect', { class: `bar ${tone}`, x: x + gap * 0.12, width: Math.max(1, gap * 0.76), y: y(count / most), height: Math.max(0, bottom - y(count / most)) });
    const label = `${stepUtc(each.begin, step)} UTC: ${plural(each.calls, 'call')}, ${each.harmful} harmful`;
    const link = svg('a', { href: sessionsAt({}, each), 'aria-label': label },
      svg('rect', { class: 'slot', x, width: gap, y: top, height: bottom - top }), bar(each.calls, 'self_loop'), bar(each.harmful, 'harmful'));
    link.append(svg('title', { text: label }));
    if (each.calls) picture.append(link);
    if (place % every === 0) picture.append(svg('text', { class: 'soft', x, y: high - 6, text: stepUtc(each.begin, step) }));
  });
  for (const [name, tone] of [['prefix_crit', 'crit'], ['harm_rate', 'rate']]) picture.append(...meanLine(steps, name, tone, (place) => left + gap * (place + 0.5), y));
  return el('div', { class: 'wide' }, picture);
}

/** A line through the steps that have a mean, broken where none is; a lone one is a dot. */
function meanLine(steps, name, tone, x, y) {
  let d = '';
  const dots = [];
  steps.forEach((each, place) => {
    if (each[name] === null) return;
    const joined = place > 0 && steps[place - 1][name] !== null;
    d += `${joined ? 'L' : 'M'}${x(place)} ${y(each[name])}`;
    dots.push(svg('circle', { class: `${tone}-dot`, cx: x(place), cy: y(each[name]), r: steps.length > 60 ? 1.5 : 3 }));
  });
  return [svg('path', { class: `${tone} through`, d }), ...dots];
}
