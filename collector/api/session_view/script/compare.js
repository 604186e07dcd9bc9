/* Two versions of an agent (its `service.version`) or of a spec, side by side. */

const compareHash = (kind, name, one = '', two = '') => `#/compare?${new URLSearchParams({ [kind]: name, ...(one || two ? { one, two } : {}) })}`;

/** What is compared, by the address; null where nothing is. */
function comparison() {
  const [, text] = /^#\/compare\?(.*)$/.exec(location.hash) ?? [];
  if (text === undefined) return null;
  const query = new URLSearchParams(text);
  const kind = query.has('spec') ? 'spec' : 'agent';
  return { kind, name: query.get(kind) ?? '', one: query.get('one'), two: query.get('two') };
}

async function loadCompare() {
  const wanted = comparison();
  if (!wanted || state.chosen) return;
  const query = new URLSearchParams({ [wanted.kind]: wanted.name, since: String(Math.floor(Date.now() / 3600000) * 3600000 - RANGES[state.last][1] * 1000) + NANOSECONDS });
  if (valueOf('namespace')) query.set('namespace', valueOf('namespace'));
  try {
    const { versions } = await ask(`api/v1/versions?${query}`);
    if (JSON.stringify(comparison()) === JSON.stringify(wanted) && !state.chosen) showCompare(wanted, versions);
  } catch (problem) {
    noAnswer(problem);
  }
}

function showCompare(wanted, versions) {
  const latest = [...versions].sort((one, two) => two.last - one.last || two.first - one.first || two.version.localeCompare(one.version, 'en', { numeric: true }));
  const pick = (version, place) => versions.find((each) => each.version === version) ?? latest[Math.min(place, latest.length - 1)];
  const head = el('div', { class: 'head overview' }, el('a', { class: 'back always', href: '#/', text: '\u2190 Overview' }),
    el('h2', { text: `Versions of ${wanted.name}` }), el('p', { text: `${RANGES[state.last][0]}; ${wanted.kind === 'agent' ? 'by service.version of the resource' : 'by the version of the spec'}` }));
  if (!versions.length) {
    $('session').replaceChildren(head, el('p', { class: 'none', text: 'No session in this time.' }));
    return;
  }
  const [one, two] = [pick(wanted.one, 1), pick(wanted.two, 0)];
  $('session').replaceChildren(head, chooser(wanted, versions, one, two), compareTable(wanted, one, two), compareWhy(wanted, one, two));
  document.title = `${clean(wanted.name, 60)} \u00b7 offrails`;
}

const versionName = (version) => version || 'without a version';

function chooser(wanted, versions, one, two) {
  const choice = (id, label, chosen) => {
    const select = el('select', { id, 'aria-label': label });
    for (const { version, sessions } of versions) select.append(el('option', { value: version, text: `${versionName(version)} (${plural(sessions, 'session')})` }));
    select.value = chosen.version;
    select.addEventListener('change', () => {
      location.hash = compareHash(wanted.kind, wanted.name, $('version-one').value, $('version-two').value);
    });
    return select;
  };
  return el('div', { class: 'choices' }, choice('version-one', 'Before', one), el('span', { text: 'and' }), choice('version-two', 'After', two));
}

const versionFilters = (wanted, { version }) => ({ [wanted.kind]: wanted.name, [wanted.kind === 'agent' ? 'service_version' : 'spec_version']: version });

function compareTable(wanted, one, two) {
  const share = (row) => (row.sessions ? row.harmed_sessions / row.sessions : null);
  const rows = [
    ['sessions', (row) => row.sessions, {}, 0], ['with harm', (row) => row.harmed_sessions, { only: 'harmful' }, 0],
    ['share with harm', share, { only: 'harmful' }, 1], ['calls', (row) => row.calls, {}, 0],
    ['harmful calls', (row) => row.harmful, { only: 'harmful' }, 0], ['possible', (row) => row.possible, {}, 0],
    ['prevented', (row) => row.prevented, {}, 0], ['HarmRate', (row) => row.harm_rate, { sort: 'harm_rate' }, 1],
    ['PrefixCrit', (row) => row.prefix_crit, { sort: 'prefix_crit' }, -1],
  ];
  return el('section', { class: 'card' }, el('h3', { text: 'Figures' }), table(
    [['', ''], [versionName(one.version), ''], [versionName(two.version), ''], ['difference', '']],
    rows.map(([name, of, filters, worse]) => [[name], ...[one, two].map((row) => figure(worse ? score(of(row)) : of(row), sessionsAt({ ...versionFilters(wanted, row), ...filters }))), difference(of(one), of(two), worse)]),
  ));
}

/** The change; red where more of it is worse, and there is more. */
function difference(before, after, worse) {
  if (before === null || after === null) return el('span', { text: '\u2013' });
  const change = after - before;
  const text = Number.isInteger(before) && Number.isInteger(after) && !worse ? change.toLocaleString('en') : change.toFixed(3);
  const tone = Math.abs(change) < 0.0005 || !worse ? '' : change * worse > 0 ? 'harm' : 'good';
  return el('span', { class: tone, text: change > 0 ? `+${text}` : text });
}

function compareWhy(wanted, one, two) {
  const both = (what, filters) => {
    const names = [...new Set([...one[what], ...two[what]].map((each) => each.name))];
    const of = (row, name) => row[what].find((each) => each.name === name)?.sessions ?? 0;
    return names.map((name) => [[words(name)], ...[one, two].map((row) => figure(of(row, name), sessionsAt({ ...versionFilters(wanted, row), ...filters(name) }), 'harm')), difference(of(one, name), of(two, name), 0)]);
  };
  const rows = [...both('reasons', (name) => ({ reason: name })), ...both('tools', (name) => ({ tool: name, only: 'harmful' }))];
  if (!rows.length) return el('p', { class: 'none', text: 'Neither has a harmful call.' });
  return el('section', { class: 'card' }, el('h3', {}, 'Why', el('small', { text: 'sessions with a harmful call that has it' })),
    table([['reason or tool', ''], [versionName(one.version), ''], [versionName(two.version), ''], ['difference', '']], rows));
}
