/* One session: what it is, how it stands, and what was judged of it. */

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
    if (noAnswer(problem) === 404 && state.chosen === wanted) showGone(wanted);
  }
}

async function loadSpec(id, judgement) {
  const known = state.specs.get(id);
  if (known && known.version === judgement.spec_version) return;
  try {
    state.specs.set(id, await ask(`/api/v1/specs/${encodeURIComponent(id)}`));
  } catch (problem) {
    noAnswer(problem);
    state.specs.set(id, { version: judgement.spec_version, machines: [], missing: true });
  }
}

const tabKey = (judgement) => JSON.stringify([judgement.spec, judgement.agent, judgement.turn]);

function showSession(judgements, trails) {
  const shown = judgements.find((each) => tabKey(each) === state.tab)
    ?? judgements.find((each) => each.spec_kind === 'task' && each.harmful) ?? judgements.find((each) => each.harmful)
    ?? judgements.find((each) => each.spec_kind === 'task') ?? judgements[0];
  const key = tabKey(shown);
  const { trail = [], tree = null } = trails.find((each) => tabKey(each) === key) ?? {};
  const spec = shown.spec ? state.specs.get(shown.spec) : null;
  announce(shown, key);
  const main = $('session');
  const top = main.scrollTop;
  const focused = main.contains(document.activeElement) ? document.activeElement.id : '';
  const redraw = () => showSession(judgements, trails);
  main.replaceChildren(...[
    header(shown), tabs(judgements, key, redraw), verdict(shown, spec), notes(shown), tiles(shown),
    shown.spec_kind === 'reference' ? treeCard(shown, tree) : machineCard(shown, spec),
    scoresCard(shown, trail), riskCard(shown, tree), callsCard(shown, key, departuresOf(shown, tree)),
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
  const departed = (judgement.divergences ?? []).length;
  if (before !== undefined && departed > before.departed) {
    const { step, kind } = judgement.divergences.at(-1);
    $('news').textContent = `Call ${step} is not as in the learnt runs: ${DEPARTURES[kind] ?? words(kind)}`;
  }
  state.seen.set(key, { harmful: judgement.harmful ?? 0, departed, index: before?.now ?? Infinity, now: judgement.steps.at(-1)?.index ?? 0 });
}

function header(judgement) {
  const when = new Date(judgement.started / 1e6).toLocaleString();
  const ended = judgement.ended ? ENDINGS[judgement.ended] ?? `ended (${words(judgement.ended)})` : 'live';
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
  const said = unknowns(judgement);
  if (!said.length) return null;
  return el('div', { class: 'note', role: 'note' }, ...said.map(([title, text]) => el('p', {}, el('b', { text: title }), ` ${text}`)));
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
  if (judgement.risk !== null && judgement.risk !== undefined) tile('risk of failing', score(judgement.risk), judgement.alarms.some((each) => each.alarm === 'risk') ? 'warn' : '', '0 to 1, as the learnt runs tell it');
  if (judgement.divergences) tile('departures', String(judgement.divergences.length), judgement.divergences.length ? 'warn' : 'good', 'Calls that are not as in the learnt runs');
  if (judgement.spec_kind === 'task') {
    const where = judgement.state ?? (judgement.position.length ? `${judgement.position.length} possible` : 'anywhere');
    tile(judgement.ended ? 'ended in' : 'now in', where, `word ${where.length > 8 ? 'long' : ''} ${judgement.accepting ? 'good' : ''}`, judgement.accepting ? 'A state in which the task is done' : 'The task is not done here');
  }
  return list;
}
