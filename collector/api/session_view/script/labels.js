/* Whether the verdict on a session is right: what people said of it, and two buttons for who may say so. */

const NOTE_MAX = 2000;

/** The labels of the verdict that is shown, the latest first; what was said here is among them before the archive has it. */
function labelsOf(judgement) {
  const said = (state.said ?? []).filter((each) => !state.labels.some((other) => other.at === each.at)
    && each.session === judgement.session && each.namespace === judgement.namespace);
  return [...said, ...state.labels].filter((each) => each.spec === null || each.spec === judgement.spec);
}

/** Nothing without an archive, which keeps labels; nor for a viewer while nobody said anything. */
function labelsCard(judgement, redraw) {
  if (!state.labels) return null;
  const found = labelsOf(judgement);
  const mayLabel = state.about.role === 'operator';
  if (!found.length && !mayLabel) return null;
  const list = el('ol', { class: 'labels', id: 'labels' }, ...found.map(labelRow));
  return el('section', { class: 'card' },
    el('h3', {}, 'Is the verdict right?', el('small', { text: found.length ? plural(found.length, 'label') : 'not labelled' })),
    mayLabel ? labelForm(judgement, redraw) : null, found.length ? list : null);
}

function labelRow(each) {
  return el('li', {},
    el('span', { class: `chip ${each.label === 'wrong' ? 'harm' : 'plain'}`, text: each.label ?? 'taken back' }),
    el('span', { class: 'who', text: each.who }),
    el('time', { text: when(each.at), title: exactly(each.at) }),
    each.note ? el('p', { text: clean(each.note, NOTE_MAX) }) : null);
}

function labelForm(judgement, redraw) {
  const key = `${judgement.namespace}\n${judgement.session}`;
  const draft = state.draft?.key === key ? state.draft : { key, note: '', problem: '' };
  const note = el('input', { id: 'label-note', maxlength: String(NOTE_MAX), placeholder: 'Why (optional)', 'aria-label': 'Note', autocomplete: 'off' });
  note.value = draft.note;
  note.addEventListener('input', () => { state.draft = { key, note: note.value, problem: '' }; });
  const buttons = ['right', 'wrong'].map((label) => {
    const button = el('button', { type: 'button', id: `label-${label}`, text: label });
    button.addEventListener('click', () => sayLabel(judgement, label, note.value, key).then(redraw));
    return button;
  });
  return el('div', { class: 'say' }, note, ...buttons,
    draft.problem ? el('span', { class: 'problem', role: 'alert', text: draft.problem }) : null);
}

async function sayLabel(judgement, label, note, key) {
  const path = `api/v1/sessions/${encodeURIComponent(judgement.session)}/label?namespace=${encodeURIComponent(judgement.namespace)}`;
  try {
    const said = await tell(path, { label, note, ...(judgement.spec ? { spec: judgement.spec } : {}) });
    state.said = [said, ...(state.said ?? [])].slice(0, 100);
    state.draft = null;
  } catch (problem) {
    state.draft = { key, note, problem: `Not labelled: ${noAnswer(problem) || 'no answer'}` };
  }
}
