/* The session page. What agents say (names, ids, arguments) enters the document by textContent and
   nowhere else: there is no innerHTML here, and the policy of the page would not run it. */
'use strict';

const ROWS_MAX = 200;
const LIST_EVERY_MS = 1000;
const SHARE_OF_TIME = 10; // a list that takes long to get is asked for less often
const TEXT_MAX = 300;
const SVG = 'http://www.w3.org/2000/svg';
const $ = (id) => document.getElementById(id);

/* --- text of strangers ----------------------------------------------------------------------- */

/** One visible line: control and direction-changing characters become a mark. */
function clean(text, most = TEXT_MAX) {
  const shown = String(text ?? '').replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu, '\u00b7');
  return shown.length > most ? shown.slice(0, most - 1) + '\u2026' : shown;
}

function el(name, props = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (key === 'class') made.className = value;
    else if (key === 'text') made.textContent = clean(value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function svg(name, props = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(props)) {
    if (key === 'text') made.textContent = clean(value, 60);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const words = (reason) => clean(reason).replaceAll('_', ' ');
const score = (value) => (value === null || value === undefined ? '\u2013' : value.toFixed(3));
const plural = (count, one) => `${count.toLocaleString('en')} ${one}${count === 1 ? '' : 's'}`;

function span(ms) {
  if (ms < 0.0005) return '0';
  if (ms < 1) return `${(ms * 1000).toFixed(0)} \u00b5s`;
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  return ms < 3600000 ? `${(ms / 60000).toFixed(1)} min` : `${(ms / 3600000).toFixed(1)} h`;
}

function ago(ns) {
  const seconds = Math.max(0, Date.now() / 1000 - ns / 1e9);
  if (seconds < 5) return 'now';
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

/* --- asking ---------------------------------------------------------------------------------- */

async function ask(path) {
  const answer = await fetch(path, { headers: { accept: 'application/json' } });
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

/** Runs `work` at most every `every` ms, and once more where it was asked for meanwhile. */
function throttled(work, every) {
  let timer = null;
  let again = false;
  let busy = false;
  const run = async () => {
    timer = null;
    busy = true;
    again = false;
    const started = performance.now();
    try {
      await work();
    } finally {
      busy = false;
    }
    const pause = Math.max(every, (performance.now() - started) * SHARE_OF_TIME);
    timer = setTimeout(() => {
      timer = null;
      if (again) run();
    }, pause);
  };
  return () => {
    if (timer === null && !busy) run();
    else again = true;
  };
}

/* --- which session ---------------------------------------------------------------------------- */

const state = { chosen: null, tab: '', about: { trace_url: '' }, specs: new Map(), seen: new Map() };

const hashOf = (namespace, id) => `#/${encodeURIComponent(namespace)}/${encodeURIComponent(id)}`;

function readHash() {
  const parts = /^#\/([^/]*)\/(.+)$/.exec(location.hash);
  if (!parts) return null;
  try {
    return { namespace: decodeURIComponent(parts[1]), id: decodeURIComponent(parts[2]) };
  } catch {
    return null;
  }
}

function choose() {
  if (location.hash && !location.hash.startsWith('#/')) return;
  state.chosen = readHash();
  state.tab = '';
  state.seen.clear();
  $('frame').classList.toggle('chosen', state.chosen !== null);
  markChosen();
  if (state.chosen) loadSession();
  else showEmpty();
}

/* --- the list --------------------------------------------------------------------------------- */

async function loadList() {
  const query = new URLSearchParams({
    steps: '0', limit: String(ROWS_MAX), sort: $('sort').value, only: $('only').value, q: $('text').value,
  });
  try {
    showList(await ask(`/api/v1/sessions?${query}`));
  } catch {
    setLive(false);
  }
}

function showList(found) {
  const groups = new Map();
  for (const row of found.sessions) {
    const key = JSON.stringify([row.namespace, row.session]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  const list = $('sessions');
  const focused = document.activeElement?.dataset?.key;
  list.replaceChildren(...[...groups].map(([key, rows]) => sessionRow(key, rows)));
  if (focused) list.querySelector(`a[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  markChosen();
  const shown = found.sessions.length;
  const rest = found.matching > shown ? `, worst ${shown} of ${found.matching.toLocaleString('en')} judgements shown` : '';
  $('count').textContent = `${plural(found.live, 'live session')}${$('sort').value === 'recent' ? rest.replace('worst', 'latest') : rest}`;
  const filtered = $('only').value || $('text').value;
  $('none').hidden = shown > 0;
  $('none').textContent = filtered
    ? 'No session matches.'
    : 'No sessions yet. Point an OTLP exporter at this service, and they appear as their first call ends.';
}

function sessionRow(key, found) {
  const rows = [...found].sort((one, two) => (two.spec_kind === 'task') - (one.spec_kind === 'task'));
  const first = rows[0];
  const rate = Math.max(...rows.map((row) => row.harm_rate ?? -1));
  const harmed = rows.some((row) => row.harmful > 0);
  const ended = first.ended ? ` \u00b7 ended` : '';
  const link = el('a', { href: hashOf(first.namespace, first.session) },
    el('span', { class: 'name', text: first.session }),
    el('span', {
      class: `badge ${harmed ? 'harm' : 'good'}`, text: rate >= 0 ? rate.toFixed(2) : '', title: 'HarmRate',
    }),
    el('span', { class: 'who', text: [first.namespace, first.agent, plural(first.calls, 'call')].filter(Boolean).join(' \u00b7 ') + ended }),
    el('span', { class: 'when', text: ago(first.last) }),
    el('span', { class: 'chips' }, ...rows.map(chip)));
  link.dataset.key = key;
  return el('li', {}, link);
}

function chip(row) {
  if (!row.spec) return el('span', { class: 'chip plain', text: 'no spec' });
  if (row.harmful > 0) return el('span', { class: 'chip harm', text: `${row.spec}: ${row.harmful} harmful` });
  if (row.risk !== null) return el('span', { class: 'chip plain', text: `${row.spec}: risk ${row.risk.toFixed(2)}` });
  return el('span', { class: row.harmful === null ? 'chip plain' : 'chip', text: row.spec });
}

function markChosen() {
  const key = state.chosen ? JSON.stringify([state.chosen.namespace, state.chosen.id]) : null;
  for (const link of $('sessions').querySelectorAll('a')) {
    if (link.dataset.key === key) link.setAttribute('aria-current', 'true');
    else link.removeAttribute('aria-current');
  }
}

/** Up and down move through the list, as in any list. */
function moveInList(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const links = [...$('sessions').querySelectorAll('a')];
  const next = links[links.indexOf(document.activeElement) + step];
  if (next) {
    event.preventDefault();
    next.focus();
  } else if (step < 0) $('text').focus();
}

/* --- one session ------------------------------------------------------------------------------ */

async function loadSession() {
  const wanted = state.chosen;
  if (!wanted) return;
  const path = `${encodeURIComponent(wanted.id)}?namespace=${encodeURIComponent(wanted.namespace)}`;
  try {
    const [found, trails] = await Promise.all([
      ask(`/api/v1/sessions/${path}`), ask(`/api/v1/trails/${path}`)]);
    const specs = [...new Set(found.sessions.map((each) => each.spec).filter(Boolean))];
    await Promise.all(specs.map((id) => loadSpec(id, found.sessions.find((each) => each.spec === id))));
    if (state.chosen === wanted) showSession(found.sessions, trails.trails);
  } catch (problem) {
    if (state.chosen === wanted && problem.message === '404') showGone(wanted);
  }
}

async function loadSpec(id, judgement) {
  const known = state.specs.get(id);
  if (known && known.version === judgement.spec_version) return;
  try {
    state.specs.set(id, await ask(`/api/v1/specs/${encodeURIComponent(id)}`));
  } catch {
    state.specs.set(id, { version: judgement.spec_version, machines: [], missing: true });
  }
}

const tabKey = (judgement) => JSON.stringify([judgement.spec, judgement.agent, judgement.turn]);

function showSession(judgements, trails) {
  const shown = judgements.find((each) => tabKey(each) === state.tab)
    ?? judgements.find((each) => each.spec_kind === 'task' && each.harmful) ?? judgements.find((each) => each.harmful)
    ?? judgements.find((each) => each.spec_kind === 'task') ?? judgements[0];
  const key = tabKey(shown);
  const trail = trails.find((each) => tabKey(each) === key)?.trail ?? [];
  announce(shown, key);
  const main = $('session');
  const top = main.scrollTop;
  const focused = main.contains(document.activeElement) ? document.activeElement.id : '';
  const redraw = () => showSession(judgements, trails);
  main.replaceChildren(...[
    header(shown), tabs(judgements, key, redraw), notes(shown), tiles(shown),
    machineCard(shown), plotCard(shown, trail), callsCard(shown, key),
  ].filter((each) => each !== null));
  main.scrollTop = top;
  if (focused) $(focused)?.focus({ preventScroll: true });
  document.title = `${clean(shown.session, 60)} \u00b7 offrails`;
}

function announce(judgement, key) {
  const before = state.seen.get(key);
  const harmful = judgement.steps.filter((step) => step.kind === 'harmful');
  const last = harmful.at(-1);
  if (before !== undefined && judgement.harmful > before.harmful && last) {
    $('news').textContent = `Harmful call: ${clean(last.tool, 80)}, ${words(last.reason)}`;
  }
  state.seen.set(key, { harmful: judgement.harmful ?? 0, index: before?.now ?? Infinity, now: judgement.steps.at(-1)?.index ?? 0 });
}

function header(judgement) {
  const when = new Date(judgement.started / 1e6).toLocaleString();
  const ended = judgement.ended ? `ended (${words(judgement.ended)})` : 'live';
  return el('div', { class: 'head' },
    el('a', { class: 'back', href: '#/', text: '\u2190 All sessions' }),
    el('h2', { text: judgement.session }),
    el('p', {}, [judgement.agent, judgement.namespace, ended, `since ${when}`].filter(Boolean).map((part) => clean(part)).join(' \u00b7 ')));
}

function tabs(judgements, key, redraw) {
  if (judgements.length < 2) return null;
  const row = el('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Judged under' });
  judgements.forEach((each, place) => {
    const name = [each.spec ?? 'no spec', each.turn ? each.turn.slice(0, 8) : ''].filter(Boolean).join(' ');
    const several = judgements.filter((other) => other.spec === each.spec && other.turn === each.turn).length > 1;
    const button = el('button', {
      id: `tab-${place}`, type: 'button', role: 'tab', 'aria-selected': String(tabKey(each) === key),
      tabindex: tabKey(each) === key ? '0' : '-1',
    }, el('span', { class: `dot ${each.harmful ? 'harm' : ''}` }), clean(several ? `${name} \u00b7 ${each.agent}` : name, 60),
    el('span', { class: 'unseen', text: each.harmful ? `, ${each.harmful} harmful` : '' }));
    button.addEventListener('click', () => { state.tab = tabKey(each); redraw(); });
    button.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (place + step + judgements.length) % judgements.length;
      state.tab = tabKey(judgements[next]);
      redraw();
      $(`tab-${next}`)?.focus();
    });
    row.append(button);
  });
  return row;
}

function notes(judgement) {
  const said = [];
  for (const each of judgement.missed ?? []) {
    const what = each.kind === 'stalled' ? 'the session stands still' : 'the session can no longer finish';
    said.push(`Since call ${each.step} ${what}: ${each.rule ? `${words(each.reason)}, ${each.rule}` : words(each.reason)}.`);
  }
  if (judgement.joined) said.push('The first calls of this session were not seen: only certain harm is counted, and there are no scores.');
  else if (!judgement.exact) said.push('Some arguments were not in the spans, so more than one reading is possible: only certain harm is counted, and there are no scores.');
  if (judgement.steps_folded) said.push(`The first ${plural(judgement.steps_folded, 'call')} are counted in every number, but no longer kept one by one.`);
  if (!judgement.spec) said.push('No spec matches this session, so its calls are shown, not judged.');
  const missed = Object.values(judgement.coverage?.not_judged ?? {}).reduce((sum, each) => sum + each, 0);
  if (missed) said.push(`${plural(missed, 'call')} could not be judged: ${Object.keys(judgement.coverage.not_judged).map(words).join(', ')}.`);
  return said.length ? el('div', { class: 'note', role: 'note' }, ...said.map((text) => el('p', { text }))) : null;
}

function tiles(judgement) {
  const list = el('dl', { class: 'tiles' });
  const tile = (name, value, tone, title) =>
    list.append(el('div', { title }, el('dt', { text: name }), el('dd', { class: tone, text: value })));
  const harmful = judgement.harmful ?? 0;
  if (judgement.harm_rate !== null) {
    tile('HarmRate', score(judgement.harm_rate), harmful ? 'harm' : 'good', 'Harmful calls among those that matter; reads do not count');
    tile('PrefixCrit', score(judgement.prefix_crit), harmful ? 'harm' : 'good', '1: no harm. Early harm weighs more');
  }
  tile('calls', String(judgement.calls), '', '');
  if (judgement.harmful !== null) tile('harmful', String(harmful), harmful ? 'harm' : '', '');
  if (judgement.pc !== null && judgement.pc !== undefined) {
    tile('PC', score(judgement.pc), '', 'Path correctness: how close to the best golden path');
    tile('PC-KTC', score(judgement.pc_ktc), '', 'The same, with the order of calls');
    if (judgement.pc_hlr !== null) tile('PC+HLR', score(judgement.pc_hlr), '', 'The same after the best repair of the harmful calls');
    if (judgement.efficiency !== null) tile('Efficiency', score(judgement.efficiency), '', 'Length of the shortest golden path over the calls made');
  }
  if (judgement.risk !== null && judgement.risk !== undefined) tile('risk', score(judgement.risk), '', 'Of failing, as the learnt runs tell it');
  if (judgement.spec_kind === 'task') {
    const where = judgement.state ?? (judgement.position.length ? `${judgement.position.length} possible` : 'anywhere');
    tile(judgement.accepting ? 'state, accepting' : 'state', where, `word ${judgement.accepting ? 'good' : ''}`, '');
  }
  return list;
}

/* --- the automaton ------------------------------------------------------------------------------ */

function machineCard(judgement) {
  const spec = judgement.spec ? state.specs.get(judgement.spec) : null;
  if (!spec) return null;
  const title = judgement.spec_kind === 'policy' ? 'Rules' : judgement.spec_kind === 'reference' ? 'Reference' : 'Path through the task';
  const small = `${judgement.spec}, version ${judgement.spec_version}`;
  const card = el('section', { class: 'card' }, el('h3', {}, title, el('small', { text: small })));
  if (spec.missing) card.append(el('p', { class: 'empty-line', text: 'The spec is no longer loaded.' }));
  else if (judgement.spec_kind === 'policy') card.append(rules(spec, judgement));
  else if (judgement.spec_kind === 'reference') card.append(...learnt(spec, judgement));
  else for (const machine of spec.machines) card.append(machine.why ? el('p', { text: `Not drawn: ${machine.why}.` }) : drawing(machine, walkOf(machine, judgement)));
  return card;
}

/** What was learnt from earlier runs, where this one leaves them, and how sure an alarm is. */
function learnt(spec, judgement) {
  const parts = [];
  const right = (value) => (value === null || value === undefined ? 'precision not known' : `right in ${Math.round(value * 100)} % of cases`);
  for (const alarm of judgement.alarms ?? []) {
    parts.push(el('p', { class: `alarm ${alarm.level === 'page' ? 'harm' : ''}` }, el('b', { text: words(alarm.alarm) }),
      clean(` \u2014 ${alarm.level}; ${right(alarm.precision)}, learnt from ${plural(alarm.support, 'run')}`)));
  }
  for (const each of (judgement.divergences ?? []).slice(0, 8)) {
    parts.push(el('p', { class: 'alarm' }, el('b', { text: `Call ${each.step}` }),
      clean(`: ${words(each.kind)} (${words(each.phase)}${each.write ? ', a write' : ''}); ${each.support} of the runs were here, and went on with `),
      ...each.expected.slice(0, 6).flatMap((name, place) => [place ? ', ' : '', el('bdi', { text: name })])));
  }
  for (const machine of spec.machines) {
    if (machine.more) parts.push(el('p', { class: 'alarm', text: `The most frequent ways; ${plural(machine.more, 'more step')} of rarer ones are not drawn.` }));
    parts.push(drawing(machine, walkOfTree(machine, judgement)));
  }
  return parts;
}

/** The way through the prefix tree, by tools, up to where the session leaves it. */
function walkOfTree(machine, judgement) {
  const walk = { states: new Map([[0, 0]]), edges: new Map(), harms: new Map(), here: 0 };
  if (judgement.joined || judgement.steps_folded) return { ...walk, states: new Map(), here: -1 };
  for (const step of judgement.steps) {
    const edge = machine.edges.find((each) => each.source === walk.here && each.symbols.includes(step.tool));
    if (!edge) {
      walk.harms.set(walk.here, [{ ...step, reason: 'leaves the learnt runs' }]);
      break;
    }
    walk.edges.set(edge, step.index);
    walk.here = edge.target;
    walk.states.set(walk.here, step.index);
  }
  return walk;
}

function rules(spec, judgement) {
  const broken = new Map();
  for (const step of judgement.steps) if (step.constraint) broken.set(step.constraint, [...(broken.get(step.constraint) ?? []), step]);
  const open = new Set(judgement.unsatisfied ?? []);
  const box = el('div', { class: 'machines' });
  const ordered = [...spec.machines].sort((one, two) => broken.has(two.title) - broken.has(one.title));
  for (const machine of ordered) {
    const steps = broken.get(machine.title) ?? [];
    const said = steps.length ? `broken by call ${steps.map((step) => step.index).join(', ')}` : open.has(machine.title) ? 'still open' : 'kept';
    box.append(el('section', {},
      el('h4', { class: steps.length ? 'harm' : '' }, el('span', { class: 'mono', text: machine.title }), el('span', { text: ` \u2014 ${said}` })),
      machine.why ? null : drawing(machine, { states: new Map(), edges: new Map(), harms: new Map(), here: -1 })));
  }
  return box;
}

/** Where the calls led: by state the call that reached it first, the edges taken, harms by state. */
function walkOf(machine, judgement) {
  const place = new Map(machine.states.map((each, index) => [each.name, index]));
  const walk = { states: new Map(), edges: new Map(), harms: new Map(), here: place.get(judgement.state) ?? -1 };
  let at = judgement.joined || judgement.steps_folded ? -1 : machine.states.findIndex((each) => each.initial);
  if (at >= 0) walk.states.set(at, 0);
  for (const step of judgement.steps) {
    if (step.kind === 'harmful') {
      if (at >= 0) walk.harms.set(at, [...(walk.harms.get(at) ?? []), step]);
      continue;
    }
    const to = place.get(step.state) ?? -1;
    if (step.kind === 'progress' && to >= 0) {
      const fits = (edge) => edge.target === to && edge.symbols.includes(step.symbol);
      const edge = machine.edges.find((each) => each.source === at && fits(each)) ?? machine.edges.find(fits);
      if (edge) walk.edges.set(edge, step.index);
      if (!walk.states.has(to)) walk.states.set(to, step.index);
    }
    if (to >= 0) at = to;
  }
  return walk;
}

/** Layers by the longest way from the start, edges that lead back aside; near to where edges come from. */
function layersOf(machine) {
  const start = Math.max(0, machine.states.findIndex((each) => each.initial));
  const next = machine.states.map(() => []);
  for (const edge of machine.edges) if (edge.source !== edge.target) next[edge.source].push(edge.target);
  const mark = machine.states.map(() => 0); // 1: on the way, 2: done
  const forward = machine.states.map(() => []);
  const queue = []; // the last that is done comes first: a topological order
  const stack = [[start, 0]];
  mark[start] = 1;
  while (stack.length) {
    const top = stack.at(-1);
    const to = next[top[0]][top[1]];
    top[1] += 1;
    if (to === undefined) {
      mark[top[0]] = 2;
      queue.unshift(top[0]);
      stack.pop();
    } else {
      if (mark[to] !== 1) forward[top[0]].push(to);
      if (mark[to] === 0) {
        mark[to] = 1;
        stack.push([to, 0]);
      }
    }
  }
  const layer = machine.states.map(() => -1);
  layer[start] = 0;
  for (const at of queue) for (const to of forward[at]) layer[to] = Math.max(layer[to], layer[at] + 1);
  const layers = [];
  queue.forEach((at) => (layers[layer[at]] ??= []).push(at));
  const row = machine.states.map(() => 0);
  for (const members of layers) {
    const pull = (at) => {
      const from = machine.edges.filter((edge) => edge.target === at && layer[edge.source] === layer[at] - 1);
      return from.length ? from.reduce((sum, edge) => sum + row[edge.source], 0) / from.length : 0;
    };
    const wanted = new Map(members.map((at) => [at, pull(at)]));
    members.sort((one, two) => wanted.get(one) - wanted.get(two));
    members.forEach((at, place) => { row[at] = place - (members.length - 1) / 2; });
  }
  return { layers, layer, row };
}

const brief = (names, most, length) => {
  const shown = names.slice(0, most).map((name) => clean(name, length)).join(', ');
  return names.length > most ? `${shown} +${names.length - most}` : shown;
};
const widthOf = (text, size = 7) => text.length * size;

function drawing(machine, walk) {
  const { layers, layer, row } = layersOf(machine);
  const upright = $('session').clientWidth < 640;
  const radius = 15;
  const widest = Math.max(1, ...layers.map((members) => members.length));
  const labels = machine.edges.filter((edge) => edge.source !== edge.target).map((edge) => widthOf(brief(edge.symbols, 2, 16)));
  const names = machine.states.map((each) => widthOf(clean(each.name, 18)));
  const gap = upright ? 74 : Math.max(104, ...names.map((each) => each + 18), ...labels.map((each) => each + 46));
  const lane = upright ? Math.max(150, ...names.map((each) => each + 60)) : 122;
  const wide = upright ? lane * widest : gap * (layers.length - 1) + Math.max(120, names[0] ?? 0) + 24;
  const high = upright ? gap * (layers.length - 1) + 92 : lane * widest + 8;
  const at = machine.states.map((_, index) => {
    const along = layer[index] * gap;
    const across = row[index] * lane;
    return upright ? { x: lane * widest / 2 + across - (widest > 1 ? 0 : lane / 2 - 34), y: along + 46 }
      : { x: along + Math.max(60, (names[0] ?? 0) / 2 + 8), y: high / 2 + across - 8 };
  });
  const room = $('session').clientWidth - 100;
  const scale = wide > room && room / wide > 0.7 ? room / wide : 1; // smaller beats a scroll bar, to a point
  const picture = svg('svg', { width: wide * scale, height: high * scale, viewBox: `0 0 ${wide} ${high}`, role: 'img' });
  picture.append(svg('title', { text: describe(machine, walk) }));
  const back = svg('g');
  const front = svg('g');
  for (const edge of machine.edges) if (edge.source !== edge.target && layer[edge.source] >= 0) drawEdge(back, front, edge, at, layer, walk, upright, radius);
  machine.states.forEach((each, index) => { if (layer[index] >= 0) drawState(front, each, index, at[index], machine, walk, upright, radius, gap); });
  picture.append(back, front);
  return el('div', { class: 'wide', tabindex: '0', role: 'group', 'aria-label': 'Automaton' }, picture);
}

function describe(machine, walk) {
  const here = walk.here >= 0 ? `, now in ${clean(machine.states[walk.here].name, 40)}` : '';
  const harms = [...walk.harms.values()].reduce((sum, steps) => sum + steps.length, 0);
  return `${plural(machine.states.length, 'state')}, ${plural(walk.edges.size, 'edge')} taken, ${harms} harmful${here}`;
}

function drawEdge(back, front, edge, at, layer, walk, upright, radius) {
  const taken = walk.edges.has(edge) ? 'taken' : '';
  const [from, to] = [at[edge.source], at[edge.target]];
  const span = layer[edge.target] - layer[edge.source];
  const bend = span === 1 ? 0 : (span > 1 ? -1 : 1) * (34 + 12 * Math.abs(span));
  const middle = { x: (from.x + to.x) / 2 + (upright ? -bend : 0), y: (from.y + to.y) / 2 + (upright ? 0 : bend) };
  const toward = (one, two, away) => {
    const far = Math.hypot(two.x - one.x, two.y - one.y) || 1;
    return { x: one.x + (two.x - one.x) / far * away, y: one.y + (two.y - one.y) / far * away };
  };
  const first = toward(from, middle, radius + 1);
  const last = toward(to, middle, radius + 8);
  const tip = toward(to, middle, radius + 1);
  back.append(svg('path', { class: `edge ${taken}`, d: `M${first.x} ${first.y}Q${middle.x} ${middle.y} ${last.x} ${last.y}` }));
  const side = { x: -(tip.y - last.y) * 0.6, y: (tip.x - last.x) * 0.6 };
  back.append(svg('path', { class: `tip ${taken}`, d: `M${tip.x} ${tip.y}L${last.x + side.x} ${last.y + side.y}L${last.x - side.x} ${last.y - side.y}z` }));
  const peak = { x: (from.x + to.x) / 4 + middle.x / 2, y: (from.y + to.y) / 4 + middle.y / 2 };
  const text = svg('text', {
    class: `label halo ${taken} ${upright ? '' : 'mid'}`, x: peak.x + (upright ? 10 : 0), y: peak.y + (upright ? 4 : -8), text: brief(edge.symbols, 2, 16),
  });
  text.append(svg('title', { text: edge.symbols.join(', ') }));
  front.append(text);
}

function drawState(front, each, index, { x, y }, machine, walk, upright, radius, gap) {
  const tone = index === walk.here ? 'here' : walk.states.has(index) ? 'seen' : '';
  const dot = svg('circle', { class: `state ${tone}`, cx: x, cy: y, r: radius });
  dot.append(svg('title', { text: each.name }));
  front.append(dot);
  if (each.accepting) front.append(svg('circle', { class: `inner ${tone}`, cx: x, cy: y, r: radius - 3.5 }));
  const reached = walk.states.get(index);
  if (reached) front.append(svg('text', { class: `number ${tone}`, x, y: y + 4, text: String(reached) }));
  if (each.initial) {
    const d = upright ? `M${x} ${y - radius - 16}V${y - radius - 2}` : `M${x - radius - 18} ${y}H${x - radius - 3}`;
    front.append(svg('path', { class: 'edge', d }));
  }
  const place = upright ? { x: x + radius + 8, y: y + 4, class: 'halo' } : { x, y: y + radius + 17, class: 'mid halo' };
  front.append(svg('text', { ...place, text: clean(each.name, 18) }));
  const loop = machine.edges.find((edge) => edge.source === index && edge.target === index);
  const harms = walk.harms.get(index) ?? [];
  if (loop) {
    const text = svg('text', {
      class: upright ? 'soft halo' : 'soft mid halo', x: place.x, y: place.y + 15,
      text: `\u21bb ${brief(loop.symbols, upright || gap > 130 ? 3 : 2, 12)}`,
    });
    text.append(svg('title', { text: `stays: ${loop.symbols.join(', ')}` }));
    front.append(text);
  }
  if (!harms.length) return;
  front.append(svg('circle', { class: 'harm-dot', cx: x + radius - 3, cy: y - radius + 3, r: 6 }));
  const names = [...new Set(harms.map((step) => step.tool))];
  const counted = names.map((name) => {
    const times = harms.filter((step) => step.tool === name).length;
    return clean(name, 14) + (times > 1 ? ` \u00d7${times}` : '');
  });
  const text = svg('text', {
    class: upright ? 'harm-text halo' : 'harm-text mid halo',
    x: upright ? x + radius + 8 + widthOf(clean(each.name, 18)) + 10 : x, y: upright ? y + 4 : y - radius - 12,
    text: `\u2717 ${brief(counted, 2, 20)}`,
  });
  text.append(svg('title', { text: harms.map((step) => `call ${step.index}: ${words(step.reason)}`).join('; ') }));
  front.append(text);
}

/* --- the scores as a plot ------------------------------------------------------------------------ */

function plotCard(judgement, trail) {
  if (trail.length < 2) return null;
  const wide = Math.max(300, Math.min(1100, $('session').clientWidth - 90));
  const [high, left, right, top] = [170, 34, 122, 12];
  const [low, best] = [trail[0][0], trail.at(-1)[0]];
  const x = (place) => left + (wide - left - right) * place / (trail.length - 1);
  const y = (value) => top + (high - top - 26) * (1 - value);
  const line = (column) => trail.map((row, place) => (place ? `H${x(place)}V${y(row[column])}` : `M${x(0)} ${y(row[column])}`)).join('');
  const picture = svg('svg', { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: 'img' });
  picture.append(svg('title', { text: `Calls ${low} to ${best}: HarmRate ${score(trail.at(-1)[1])}, PrefixCrit ${score(trail.at(-1)[2])}` }));
  for (const value of [0, 0.5, 1]) {
    picture.append(svg('line', { class: 'grid', x1: left, x2: wide - right, y1: y(value), y2: y(value) }));
    picture.append(svg('text', { class: 'soft end', x: left - 8, y: y(value) + 4, text: String(value) }));
  }
  const every = Math.max(1, Math.ceil(trail.length / Math.max(4, Math.floor(wide / 70))));
  trail.forEach((row, place) => {
    if (place % every === 0) picture.append(svg('text', { class: 'soft mid', x: x(place), y: high - 6, text: String(row[0]) }));
  });
  picture.append(svg('path', { class: 'crit', d: line(2) }), svg('path', { class: 'rate', d: line(1) }));
  const kinds = new Map(judgement.steps.map((step) => [step.index, step]));
  trail.forEach((row, place) => {
    const step = kinds.get(row[0]);
    if (step?.kind !== 'harmful') return;
    const dot = svg('circle', { class: 'harm-dot', cx: x(place), cy: y(row[1]), r: 5 });
    dot.append(svg('title', { text: `call ${row[0]}: ${step.tool}, ${words(step.reason)}` }));
    picture.append(dot);
  });
  const ends = [y(trail.at(-1)[1]), y(trail.at(-1)[2])];
  const close = Math.abs(ends[0] - ends[1]) < 14;
  const shift = close ? (ends[0] <= ends[1] ? -8 : 8) : 0;
  picture.append(svg('text', { class: 'rate-text', x: wide - right + 9, y: ends[0] + 4 + shift, text: `HarmRate ${trail.at(-1)[1].toFixed(2)}` }));
  picture.append(svg('text', { class: 'crit-text', x: wide - right + 9, y: ends[1] + 4 - shift, text: `PrefixCrit ${trail.at(-1)[2].toFixed(2)}` }));
  return el('section', { class: 'card' },
    el('h3', {}, 'Scores over the calls', el('small', { text: 'dots are harmful calls' })),
    el('div', { class: 'wide' }, picture));
}

/* --- the calls ------------------------------------------------------------------------------------ */

function callsCard(judgement, key) {
  const steps = judgement.steps;
  const begin = Math.min(...steps.map((step) => step.start_ns));
  const end = Math.max(...steps.map((step) => step.end_ns), begin + 1);
  const list = el('ol', { class: 'calls' });
  const before = state.seen.get(key)?.index ?? Infinity;
  for (const step of steps) list.append(callRow(step, steps, judgement, begin, end, step.index > before));
  const took = steps.length ? `${plural(judgement.calls, 'call')} in ${span((end - begin) / 1e6)}` : '';
  return el('section', { class: 'card' }, el('h3', {}, 'Calls', el('small', { text: took })), list);
}

const KIND = { progress: 'progress', self_loop: 'read', harmful: 'harmful', control: 'control' };

function callRow(step, steps, judgement, begin, end, isNew) {
  const failed = step.error ? ' failed' : '';
  const row = el('li', { class: `call ${isNew ? 'new' : ''}` },
    el('span', { class: 'index', text: String(step.index) }),
    el('span', { class: 'tool' }, el('span', { text: step.tool }), el('span', { class: 'given', text: given(step) })),
    el('span', { class: `kind ${step.kind ?? ''}`, text: (step.kind === 'self_loop' && step.reason ? words(step.reason) : KIND[step.kind] ?? 'seen') }),
    el('span', { class: 'to', text: led(step) + (step.kind === 'self_loop' ? '' : failed) }),
    bars(step, steps, begin, end),
    el('span', { class: 'time', text: `+${span((step.start_ns - begin) / 1e6)}`, title: new Date(step.start_ns / 1e6).toISOString() }));
  if (step.kind === 'harmful') row.append(why(step, judgement));
  return row;
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

/** The call on the session's time line; calls that overlap it are named. */
function bars(step, steps, begin, end) {
  const share = (ns) => 100 * (ns - begin) / (end - begin);
  const width = Math.max(1.2, share(step.end_ns) - share(step.start_ns));
  const picture = svg('svg', { class: 'lane', viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('rect', { class: 'lane-back', width: 100, height: 10, rx: 1 }),
    svg('rect', { class: `bar ${step.kind ?? 'none'}`, x: Math.min(share(step.start_ns), 100 - width), width, height: 10, rx: 0.6 }));
  const others = steps.filter((each) => each !== step && each.start_ns < step.end_ns && step.start_ns < each.end_ns).map((each) => each.index);
  const box = el('span', { class: 'bars', title: `took ${span((step.end_ns - step.start_ns) / 1e6)}` }, picture);
  if (others.length) box.append(el('span', { class: 'together', text: `\u2225 with ${brief(others.map(String), 4, 6)}` }));
  return box;
}

function why(step, judgement) {
  const box = el('div', { class: 'why' });
  const names = (list) => list.flatMap((name, place) => [place ? ', ' : '', el('bdi', { text: name })]);
  const line = (title, ...rest) => box.append(el('p', {}, el('b', { text: `${title}: ` }), ...rest));
  if (step.constraint) line('Breaks', el('bdi', { text: step.constraint }));
  if (step.skipped.length) line('Skipped', ...names(step.skipped));
  if (step.allowed.length) line('Allowed here', ...names(step.allowed.slice(0, 12)), step.allowed.length > 12 ? ` and ${step.allowed.length - 12} more` : '');
  const link = traceLink(step, judgement);
  if (link) box.append(link);
  else line('Span', el('bdi', { text: `${step.trace_id} / ${step.span_id}` }));
  if (!step.final) box.append(el('p', { text: 'Not final yet: an earlier call may still arrive.' }));
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

/* --- live ------------------------------------------------------------------------------------------ */

const refreshList = throttled(loadList, LIST_EVERY_MS);
const refreshSession = throttled(loadSession, 300);

function setLive(on) {
  $('live').textContent = on ? 'live' : 'reconnecting';
  $('live').classList.toggle('on', on);
}

let settle = null;

function changed(event) {
  const news = JSON.parse(event.data);
  refreshList();
  const mine = state.chosen && news.sessions.some(([namespace, id]) => namespace === state.chosen.namespace && id === state.chosen.id);
  if (!mine && !news.more) return;
  refreshSession();
  clearTimeout(settle);
  settle = setTimeout(refreshSession, 12000); // verdicts become final a while after their calls
}

let stream = null;

/** One stream while the page is looked at: a browser has six connections for all windows of a host. */
function listen() {
  stream?.close();
  stream = null;
  if (document.hidden) return;
  stream = new EventSource('/api/v1/events');
  stream.addEventListener('hello', () => { setLive(true); refreshList(); refreshSession(); });
  stream.addEventListener('change', changed);
  stream.addEventListener('error', () => {
    setLive(false);
    if (stream?.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  });
}

function start() {
  $('filters').addEventListener('submit', (event) => event.preventDefault());
  for (const id of ['sort', 'only']) $(id).addEventListener('change', loadList);
  $('text').addEventListener('input', refreshList);
  $('text').addEventListener('keydown', (event) => {
    if (event.key !== 'ArrowDown') return;
    event.preventDefault();
    $('sessions').querySelector('a')?.focus();
  });
  $('sessions').addEventListener('keydown', moveInList);
  addEventListener('hashchange', choose);
  document.addEventListener('visibilitychange', listen);
  let resized = null;
  addEventListener('resize', () => { clearTimeout(resized); resized = setTimeout(refreshSession, 200); });
  setInterval(refreshList, 30000); // ages go on
  refreshList();
  ask('/api/v1/about').then((about) => { state.about = about; }).catch(() => {}).finally(() => { choose(); listen(); });
}

start();
