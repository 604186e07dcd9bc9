/* Calls that were denied before they were made. */

/** The denied calls of a session; nothing where there are none. */
function preventedCard(prevented) {
  if (!prevented?.length) return null;
  const list = el('ol', { class: 'calls', id: 'prevented' });
  for (const each of prevented) list.append(preventedRow(each));
  return el('section', { class: 'card' },
    el('h3', {}, 'Prevented', el('small', { text: plural(prevented.length, 'call') })),
    el('p', { class: 'hint', text: 'Denied before they were made: in no score.' }), list);
}

function preventedRow(denied) {
  const parts = [words(denied.reason ?? 'harmful')];
  if (denied.constraint) parts.push(denied.constraint);
  if (denied.skipped.length) parts.push(`first ${denied.skipped.join(', ')}`);
  if (denied.allowed.length) parts.push(`allowed were ${denied.allowed.slice(0, 8).join(', ')}`);
  return el('li', { class: 'call' },
    el('span', { class: 'index', text: '\u2013' }),
    el('span', { class: 'tool' }, el('del', { text: denied.tool })),
    el('span', { class: 'kind', text: 'prevented' }),
    el('span', { class: 'to', text: parts.join(' \u00b7 ') }),
    el('span', { class: 'bars', text: denied.spec }),
    el('span', { class: 'time', text: clockTime(denied.at_ns), title: exactly(denied.at_ns) }));
}
