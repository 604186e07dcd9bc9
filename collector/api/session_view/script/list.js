/* The list of sessions, and which one is chosen. */

const rowsShown = new Map(); // by session, its row and what it was made of
const FOLLOWED_MAX = 20; // pages that are asked for where the first one is short
let asked = 0;

function choose() {
  if (location.hash && !location.hash.startsWith('#/')) return;
  const chosen = readHash();
  state.chosen = chosen && { namespace: chosen.namespace, id: chosen.id };
  state.tab = chosen?.under ?? '';
  state.allCalls = false;
  state.judged = [];
  state.judgedAsks = 0;
  state.seen.clear();
  $('frame').classList.toggle('chosen', state.chosen !== null);
  markChosen();
  $('frame').classList.toggle('listing', location.hash === '#/sessions');
  if (state.chosen) loadSession();
  else showEmpty();
}

async function loadList() {
  const number = asked += 1;
  try {
    const query = listQuery();
    const { page, behind } = state;
    const found = await ask(`api/v1/sessions?${query}`);
    // A list that is whole on the page stays until the next one is: only a new question's grows.
    const show = () => {
      if (number === asked && behind.whole !== page) showList(found);
      return number === asked;
    };
    await follow(found, query, show);
    if (number === asked) {
      behind.whole = page;
      showList(found);
    }
    if (groupsOf(found.sessions).size >= PAGE_SIZE) behind.cursors.set(page + 1, found.next);
    // An answer that did not come took the page for cut off. The stream, where it lives on, greets only once.
    if (stream?.readyState === EventSource.OPEN) setLive(true);
  } catch (problem) {
    if (noAnswer(problem) >= 400) showRefused(problem.status);
    else setLive(false);
  }
}

/** The service looks at so many past sessions for a page, and says where it stopped: the list grows as it looks further. */
async function follow(found, query, show) {
  for (let pages = 0; pages < FOLLOWED_MAX && found.next && !query.has('offset'); pages += 1) {
    const shown = groupsOf(found.sessions).size;
    if (shown >= PAGE_SIZE || !show()) return;
    query.set('limit', String(PAGE_SIZE - shown));
    query.set('cursor', found.next);
    const more = await ask(`api/v1/sessions?${query}`);
    found.sessions.push(...more.sessions);
    found.next = more.next;
  }
}

function showRefused(status) {
  $('none').hidden = false;
  $('none').textContent = `The service does not answer this question (status ${status}).`;
}

function groupsOf(rows) {
  const groups = new Map();
  for (const row of rows) {
    const key = JSON.stringify([row.namespace, row.session]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  return groups;
}

function showList(found) {
  const groups = groupsOf(found.sessions);
  // Not all that match may have been counted: what is shown, and that more follows, is known all the same.
  const first = (state.page - 1) * PAGE_SIZE;
  const matching = Math.max(found.matching, groups.size ? first + groups.size + (found.next ? 1 : 0) : 0);
  const pages = Math.max(1, Math.min(PAGES_MAX, Math.ceil(matching / PAGE_SIZE)));
  if (state.page > pages) {
    turnPage(pages - state.page);
    return;
  }
  showRows(groups);
  markChosen();
  $('count').textContent = plural(found.live, 'live session');
  showPager(matching, groups.size, pages, found.matching_at_least);
  showNone(groups.size === 0, found.archive_error, found.next || found.matching_at_least);
}

/** Rows that say the same as before stay as they are. */
function showRows(groups) {
  const list = $('sessions');
  const focused = document.activeElement?.dataset?.key;
  for (const key of rowsShown.keys()) if (!groups.has(key)) rowsShown.delete(key);
  for (const [key, rows] of groups) {
    const facts = JSON.stringify([rows, ago(rows[0].last)]);
    if (rowsShown.get(key)?.facts !== facts) rowsShown.set(key, { facts, node: sessionRow(key, rows) });
  }
  const nodes = [...groups.keys()].map((key) => rowsShown.get(key).node);
  if (nodes.length !== list.children.length || nodes.some((node, place) => list.children[place] !== node)) list.replaceChildren(...nodes);
  if (focused && document.activeElement?.dataset?.key !== focused) {
    list.querySelector(`a[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
}

function showPager(matching, shown, pages, isAtLeast) {
  const first = (state.page - 1) * PAGE_SIZE;
  const counted = `${isAtLeast ? 'at least ' : ''}${plural(matching, 'session')}`;
  $('pager').hidden = matching === 0;
  $('range').textContent = pages > 1 ? `${first + 1}\u2013${first + shown} of ${counted}` : counted;
  for (const [id, end] of [['previous', 1], ['next', pages]]) {
    $(id).disabled = state.page === end;
    $(id).hidden = pages === 1;
  }
}

function showNone(isEmpty, problem, isPart) {
  const filtered = isFiltered();
  const bare = isEmpty && !filtered && !problem;
  const matches = isPart ? 'No session matches among those that were looked at: narrow the search.' : 'No session matches.';
  const none = filtered ? matches : 'No sessions yet.';
  $('none').hidden = !isEmpty && !problem;
  $('none').textContent = problem ? `Past sessions are missing: ${problem}` : none;
  if (state.bare === bare) return;
  const before = state.bare;
  state.bare = bare;
  $('frame').classList.toggle('bare', bare);
  if (!state.chosen && (bare || before)) showEmpty();
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
    worst(rows),
    el('span', { class: 'chips' }, ...rows.map(chip)));
  link.dataset.key = key;
  return el('li', {}, link);
}

/** The first of the harmful calls with the worst severity, under whichever spec it was. */
function worstOf(rows) {
  const worse = (one, two) => SEVERITY_ORDER.indexOf(two.severity) - SEVERITY_ORDER.indexOf(one.severity) || one.step - two.step;
  return rows.map((row) => row.worst_harm).filter(Boolean).sort(worse)[0] ?? null;
}

/** Why its worst call was harmful. */
function worst(rows) {
  const harm = worstOf(rows);
  if (!harm) return null;
  const { tool, reason, severity, detail } = harm;
  return el('span', { class: 'because', title: clean(detail) }, `${clean(tool, 60)}: ${words(reason)} `, el('small', { text: severity }));
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
