/* The state of the page is in its address, so that it can be reloaded, kept and sent: the filters and the page of
   the list in the query, the session and what it is judged under in the fragment. */

const state = { chosen: null, tab: '', page: 1, behind: { question: '', cursors: new Map() }, allCalls: false, last: 'week', by: '', about: { trace_url: '' }, specs: new Map(), seen: new Map() };

const hashOf = (namespace, id) => `#/${encodeURIComponent(namespace)}/${encodeURIComponent(id)}`;
const tabKey = (judgement) => JSON.stringify([judgement.spec, judgement.agent, judgement.turn]);

function readHash() {
  const parts = /^#\/([^/]*)\/([^?]+)(?:\?under=(.*))?$/.exec(location.hash);
  if (!parts) return null;
  try {
    const [namespace, id, under] = parts.slice(1).map((part) => decodeURIComponent(part ?? ''));
    return { namespace, id, under };
  } catch {
    return null;
  }
}

/** Which of its judgements is shown, without a step back to the one before. */
function writeTab(key) {
  state.tab = key;
  const { namespace, id } = state.chosen;
  history.replaceState(null, '', `${location.search}${hashOf(namespace, id)}?under=${encodeURIComponent(key)}`);
}

function readFilters() {
  const query = new URLSearchParams(location.search);
  for (const [name, id] of Object.entries(FIELDS)) setField($(id), query.get(name) ?? (name === 'sort' ? SORT_FIRST : ''));
  state.last = Object.hasOwn(RANGES, query.get('last')) ? query.get('last') : 'week';
  state.by = Object.hasOwn(STEP_NAMES, query.get('by')) ? query.get('by') : '';
  state.page = Math.max(1, Math.min(PAGES_MAX, Number.parseInt(query.get('page') ?? '1', 10) || 1));
}

/** A choice that is in the address is there, even before it is known what there is to choose. */
function setField(field, value) {
  if (field.tagName === 'SELECT' && value && ![...field.options].some((option) => option.value === value)) {
    if (field.id !== 'spec' && field.id !== 'agent') return;
    field.append(el('option', { value, text: value }));
  }
  field.value = value;
}

function writeFilters() {
  const query = new URLSearchParams();
  for (const [name, id] of Object.entries(FIELDS)) {
    const { value } = $(id);
    if (value && !(name === 'sort' && value === SORT_FIRST)) query.set(name, value);
  }
  if (state.last !== 'week') query.set('last', state.last);
  if (state.by) query.set('by', state.by);
  if (state.page > 1) query.set('page', String(state.page));
  const text = query.toString();
  history.replaceState(null, '', `${location.pathname}${text ? `?${text}` : ''}${location.hash}`);
}
