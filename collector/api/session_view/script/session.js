/* One session: what it is, how it stands, and what was judged of it. */

async function loadSession() {
  const wanted = state.chosen;
  if (!wanted) return;
  const path = `${encodeURIComponent(wanted.id)}?namespace=${encodeURIComponent(wanted.namespace)}`;
  try {
    const [found, trails] = await Promise.all([
      ask(`api/v1/sessions/${path}`), askTrails(path)]);
    const specs = [...new Set(found.sessions.map((each) => each.spec).filter(Boolean))];
    await Promise.all(specs.map((id) => loadSpec(id, found.sessions.find((each) => each.spec === id))));
    if (state.chosen !== wanted) return;
    state.judged = found.judged;
    state.labels = found.labels;
    showSession(found.sessions, trails.trails, found.prevented);
    untilFinal(found);
  } catch (problem) {
    const status = noAnswer(problem);
    if ([404, 503].includes(status) && state.chosen === wanted) showGone(wanted, status);
  }
}

/** A past session has no trails: the archive keeps what was judged, not the scores after each call. */
async function askTrails(path) {
  try {
    return await ask(`api/v1/trails/${path}`);
  } catch (problem) {
    if (noAnswer(problem) !== 404) throw problem;
    return { trails: [] };
  }
}

async function loadSpec(id, judgement) {
  const known = state.specs.get(id);
  if (known && known.version === judgement.spec_version) return;
  try {
    state.specs.set(id, await ask(`api/v1/specs/${encodeURIComponent(id)}`));
  } catch (problem) {
    noAnswer(problem);
    state.specs.set(id, { version: judgement.spec_version, machines: [], missing: true });
  }
}

function showSession(judgements, trails, prevented) {
  const shown = judgements.find((each) => tabKey(each) === state.tab)
    ?? judgements.find((each) => each.spec_kind === 'task' && each.harmful) ?? judgements.find((each) => each.harmful)
    ?? judgements.find((each) => each.spec_kind === 'task') ?? judgements[0];
  const key = tabKey(shown);
  const { trail = [], tree = null, severities = shown.severities ?? {} } = trails.find((each) => tabKey(each) === key) ?? {};
  for (const step of shown.steps) Object.assign(step, readingOf(step), { severity: step.severity ?? severities[step.index] });
  const spec = shown.spec ? state.specs.get(shown.spec) : null;
  announce(shown, key);
  const main = $('session');
  const top = main.scrollTop;
  const focused = main.contains(document.activeElement) ? document.activeElement.id : '';
  const redraw = () => showSession(judgements, trails, prevented);
  main.replaceChildren(...[
    header(shown), tabs(judgements, key, redraw), verdict(shown, spec), notes(shown),
    callsCard(shown, key, departuresOf(shown, tree), redraw), preventedCard(prevented), judgedCard(shown), labelsCard(shown, redraw), thingsCard(shown), tiles(shown), likelyLine(shown),
    shown.spec_kind === 'reference' ? treeCard(shown, tree) : machineCard(shown, spec),
    scoresCard(shown, trail), riskCard(shown, tree),
  ].filter((each) => each !== null));
  main.scrollTop = top;
  if (focused) $(focused)?.focus({ preventScroll: true });
  document.title = `${clean(shown.session, 60)} \u00b7 offrails`;
}

function announce(judgement, key) {
  const before = state.seen.get(key);
  const harmful = judgement.steps.filter(isHarmful);
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
  const ended = judgement.ended ? ENDINGS[judgement.ended] ?? `ended (${words(judgement.ended)})` : 'live';
  return el('div', { class: 'head' },
    el('a', { class: 'back', href: '#/sessions', text: '\u2190 All sessions' }),
    el('div', { class: 'title' }, el('h2', { text: judgement.session }), copyButton('copy-session', judgement.session, 'the session id')),
    el('p', {}, [judgement.agent, judgement.namespace, ended, `since ${when(judgement.started)}`].filter(Boolean).map((part) => clean(part)).join(' \u00b7 ')));
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
    button.addEventListener('click', () => { writeTab(tabKey(each)); redraw(); });
    button.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (place + step + judgements.length) % judgements.length;
      writeTab(tabKey(judgements[next]));
      redraw();
      $(`tab-${next}`)?.focus();
    });
    row.append(button);
  });
  return row;
}

function notes(judgement) {
  const found = unknowns(judgement);
  if (!found.length) return null;
  return el('div', { class: 'note', role: 'note' }, ...found.map(([title, text]) => el('p', {}, el('b', { text: title }), ...sentence(` ${text}`))));
}
