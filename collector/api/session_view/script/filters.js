/* What the list is asked for. */

/** By name in the address, the id of the field. */
const FIELDS = {
  q: 'text', sort: 'sort', only: 'only', reason: 'reason', severity: 'severity', spec: 'spec', mode: 'mode',
  agent: 'agent', tool: 'tool', age: 'age', from: 'from', to: 'to', namespace: 'namespace',
  service_version: 'service_version', spec_version: 'spec_version', thing: 'thing',
};
const SORT_FIRST = 'harm';
const NANOSECONDS = '000000'; // behind a time in milliseconds
const SINCE_STEP_MS = 10000; // several pages that look at the last hour share one list

const valueOf = (name) => $(FIELDS[name]).value;

/** The question to the API. Without filters it is the one that the page has asked before its script ran. */
function listQuery() {
  const query = new URLSearchParams({ steps: '0', limit: String(PAGE_SIZE), sort: valueOf('sort') });
  for (const name of ['q', 'only', 'reason', 'severity', 'spec', 'mode', 'agent', 'tool', 'namespace', 'service_version', 'spec_version', 'thing']) {
    if (valueOf(name)) query.set(name, valueOf(name));
  }
  const since = Math.max(msOf(valueOf('from')), ageStart(valueOf('age')));
  if (since > 0) query.set('since', since + NANOSECONDS);
  if (msOf(valueOf('to')) > 0) query.set('until', msOf(valueOf('to')) + NANOSECONDS);
  const cursor = cursorOf(query);
  if (cursor) query.set('cursor', cursor);
  else if (state.page > 1) query.set('offset', String((state.page - 1) * PAGE_SIZE));
  return query;
}

/** Where the page begins, if the one before it was seen: the service finds it at once, however many sessions stand before it. */
function cursorOf(query) {
  const question = new URLSearchParams(query);
  question.delete('since'); // an age begins later each time
  if (state.behind.question !== String(question)) state.behind = { question: String(question), cursors: new Map() };
  return state.behind.cursors.get(state.page);
}

const msOf = (local) => (local ? new Date(local).getTime() || 0 : 0);
const ageStart = (seconds) => (seconds ? Math.floor((Date.now() - 1000 * Number(seconds)) / SINCE_STEP_MS) * SINCE_STEP_MS : 0);

const isFiltered = () => Object.keys(FIELDS).some((name) => name !== 'sort' && valueOf(name));

/** The filters that are not in sight are counted. */
function showUsed() {
  const used = ['reason', 'severity', 'spec', 'mode', 'agent', 'tool', 'age', 'from', 'to', 'namespace', 'service_version', 'spec_version', 'thing'].filter(valueOf);
  $('used').textContent = used.length ? `${used.length} in use` : '';
}

function filtersChanged(refresh = refreshNow) {
  state.page = 1;
  writeFilters();
  showUsed();
  refresh();
  refreshOverview();
}

function turnPage(step) {
  state.page += step;
  writeFilters();
  refreshNow();
  document.querySelector('.list').scrollTop = 0;
}

function clearFilters() {
  for (const [name, id] of Object.entries(FIELDS)) if (name !== 'sort') $(id).value = '';
  filtersChanged();
}

/** Specs, agents and tools to choose from; asked for when somebody looks. */
async function fillChoices() {
  try {
    const [{ specs }, { agents }] = await Promise.all([ask('api/v1/specs'), ask('api/v1/seen')]);
    fillSelect($('spec'), specs.map((spec) => spec.id));
    fillSelect($('agent'), agents.flatMap((each) => [each.service, ...each.agents ?? []])); // an agent without a name has its service's
    const tools = [...new Set(agents.flatMap((each) => Object.keys(each.tools ?? {})))].sort();
    $('tools').replaceChildren(...tools.slice(0, CHOICES_MAX).map((value) => el('option', { value })));
  } catch (problem) {
    noAnswer(problem);
  }
}

function fillSelect(select, names) {
  const { value } = select;
  const known = [...new Set([...names, value])].filter(Boolean).sort().slice(0, CHOICES_MAX);
  select.replaceChildren(select.options[0], ...known.map((name) => el('option', { value: name, text: clean(name, 60) })));
  select.value = value;
}

function startFilters() {
  for (const reason of Object.keys(REASONS)) $('reason').append(el('option', { value: reason, text: words(reason) }));
  readFilters();
  showUsed();
  $('filters').addEventListener('submit', (event) => event.preventDefault());
  for (const [name, id] of Object.entries(FIELDS)) {
    // Not each letter is a question: the service makes the lists one after the other, those that nobody waits for as well.
    if (['q', 'tool'].includes(name)) $(id).addEventListener('input', () => filtersChanged(refreshList));
    else $(id).addEventListener('change', () => filtersChanged());
  }
  $('more').addEventListener('toggle', () => { if ($('more').open) fillChoices(); });
  $('reset').addEventListener('click', clearFilters);
  $('previous').addEventListener('click', () => turnPage(-1));
  $('next').addEventListener('click', () => turnPage(1));
}
