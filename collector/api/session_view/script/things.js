/* The things of a spec with `each`: a row each, with its state. */

const THING_ROWS = 50;

/** What a thing is called, as why-sentences call it. */
const thingName = (thing) => `${thing.name} ${thing.digest ?? thing.value}`;

/** The things of a judgement, those with harm first; nothing under a spec without `each`. */
function thingsCard(judgement) {
  const things = judgement.things;
  if (!things?.length) return null;
  const rows = [...things].sort((one, other) => other.harmful - one.harmful).slice(0, THING_ROWS);
  const count = judgement.things_count ?? things.length;
  const card = el('section', { class: 'card', id: 'things' }, el('h3', {}, 'Things', el('small', { text: plural(count, 'thing') })), table(
    [['thing', ''], ['state', ''], ['accepting', ''], ['calls', 'more'], ['harmful', '']],
    rows.map((each) => [
      [clean(thingName(each), 120)], clean(each.state ?? 'several', 120), each.accepting ? 'yes' : 'no', String(each.calls),
      el('span', { class: each.harmful ? 'figure harm' : 'figure', text: String(each.harmful) }),
    ])));
  if (count > rows.length) card.append(el('p', { class: 'hint', text: `${rows.length} of ${count} are shown.` }));
  return card;
}
