/* The list of sessions, and which one is chosen. */

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

async function loadList() {
  const query = new URLSearchParams({
    steps: '0', limit: String(ROWS_MAX), sort: $('sort').value, only: $('only').value, q: $('text').value,
  });
  try {
    showList(await ask(`/api/v1/sessions?${query}`));
  } catch (problem) {
    noAnswer(problem);
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
    el('span', { class: `badge ${harmed ? 'harm' : 'good'}` },
      ...(rate >= 0 ? [el('small', { text: 'HarmRate' }), ` ${rate.toFixed(2)}`] : [])),
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
