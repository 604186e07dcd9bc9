/* The automaton, with the path taken. */

function machineCard(judgement, spec) {
  if (!spec) return null;
  const title = judgement.spec_kind === 'policy' ? 'Rules' : 'Path through the task';
  const small = `${judgement.spec}, version ${judgement.spec_version}`;
  const card = el('section', { class: 'card' }, el('h3', {}, title, el('small', { text: small })));
  if (spec.missing) card.append(el('p', { class: 'legend-line', text: 'The spec is no longer loaded.' }));
  else if (judgement.spec_kind === 'policy') card.append(rules(spec, judgement));
  else for (const machine of spec.machines) card.append(machine.why ? el('p', { text: `Not drawn: ${machine.why}.` }) : drawing(machine, walkOf(machine, judgement)));
  card.append(legend(judgement.spec_kind === 'policy' ? 'it may end here' : 'done'));
  return card;
}

/** How to read a drawing, for who sees one for the first time. */
function legend(ring) {
  return el('p', { class: 'legend-line' },
    el('span', { class: 'key taken' }), ' the way taken, with the calls that led there; ',
    el('span', { class: 'cross', text: '\u2717' }), ' a harmful call, where it was made; \u21bb calls that change nothing there; a double ring: ' + ring);
}

/** Each rule as a sentence and a machine, the broken ones first, then those that still ask for something. */
function rules(spec, judgement) {
  const broken = new Map();
  for (const step of judgement.steps) if (step.constraint && !step.possible) broken.set(step.constraint, [...(broken.get(step.constraint) ?? []), step]);
  const open = new Set(judgement.unsatisfied);
  const weight = (machine) => 2 * broken.has(machine.title) + open.has(machine.title);
  const box = el('div', { class: 'machines' });
  for (const machine of [...spec.machines].sort((one, two) => weight(two) - weight(one))) {
    const steps = broken.get(machine.title) ?? [];
    const tone = steps.length ? 'harm' : open.has(machine.title) ? 'open' : 'kept';
    const status = steps.length ? `broken by call ${steps.map((step) => step.index).join(', ')}`
      : open.has(machine.title) ? (judgement.ended ? 'not fulfilled when it ended' : 'still to be fulfilled') : 'kept';
    box.append(el('section', {},
      el('h4', {}, el('span', { class: `rule ${tone}`, text: status }), ...sentence(machine.rule)),
      el('p', { class: 'mono soft', text: machine.title }),
      machine.why ? null : drawing(machine, walkOfRule(machine, judgement, steps))));
  }
  return box;
}

/** Where one rule stood after each call; the state of a policy names that of each rule that has moved. */
function walkOfRule(machine, judgement, broken) {
  const walk = { states: new Map(), edges: new Map(), harms: new Map(), here: -1 };
  if (judgement.joined || judgement.steps_folded) return walk;
  const start = machine.states.findIndex((each) => each.initial);
  const indexOf = (text) => {
    const matching = machine.states.map((each, index) => [each.name, index])
      .filter(([name]) => `; ${text};`.includes(`; ${machine.title}: ${name};`));
    return matching.length ? matching[0][1] : start;
  };
  walk.states.set(start, 0);
  walk.here = start;
  for (const step of judgement.steps) {
    if (broken.includes(step)) walk.harms.set(walk.here, [...(walk.harms.get(walk.here) ?? []), step]);
    if (isHarmful(step) || step.state === null) continue;
    const to = indexOf(step.state);
    const edge = to === walk.here ? null : machine.edges.find((each) => each.source === walk.here && each.target === to);
    if (edge) walk.edges.set(edge, step.index);
    if (!walk.states.has(to)) walk.states.set(to, step.index);
    walk.here = to;
  }
  return walk;
}

/** Where the calls led: by state the call that reached it first, the edges taken, harms by state. */
function walkOf(machine, judgement) {
  const place = new Map(machine.states.map((each, index) => [each.name, index]));
  const walk = { states: new Map(), edges: new Map(), harms: new Map(), here: place.get(judgement.state) ?? -1 };
  let at = judgement.joined || judgement.steps_folded ? -1 : machine.states.findIndex((each) => each.initial);
  if (at >= 0) walk.states.set(at, 0);
  for (const step of judgement.steps) {
    if (isHarmful(step)) {
      if (at >= 0) walk.harms.set(at, [...(walk.harms.get(at) ?? []), step]);
      continue;
    }
    const to = place.get(step.state) ?? -1;
    if (step.kind === 'progress' && to >= 0) {
      const fits = (edge) => edge.target === to && edge.symbols.includes(step.symbol);
      const edge = machine.edges.find((each) => each.source === at && fits(each)) ?? machine.edges.find(fits);
      if (edge) walk.edges.set(edge, step.index);
      if (!walk.states.has(to)) walk.states.set(to, step.index);
    }
    if (to >= 0) at = to;
  }
  return walk;
}

/** Layers by the longest way from the start, edges that lead back aside; near to where edges come from. */
function layersOf(machine) {
  const start = Math.max(0, machine.states.findIndex((each) => each.initial));
  const next = machine.states.map(() => []);
  for (const edge of machine.edges) if (edge.source !== edge.target) next[edge.source].push(edge.target);
  const mark = machine.states.map(() => 0); // 1: on the way, 2: done
  const forward = machine.states.map(() => []);
  const queue = []; // the last that is done comes first: a topological order
  const stack = [[start, 0]];
  mark[start] = 1;
  while (stack.length) {
    const top = stack.at(-1);
    const to = next[top[0]][top[1]];
    top[1] += 1;
    if (to === undefined) {
      mark[top[0]] = 2;
      queue.unshift(top[0]);
      stack.pop();
    } else {
      if (mark[to] !== 1) forward[top[0]].push(to);
      if (mark[to] === 0) {
        mark[to] = 1;
        stack.push([to, 0]);
      }
    }
  }
  const layer = machine.states.map(() => -1);
  layer[start] = 0;
  for (const at of queue) for (const to of forward[at]) layer[to] = Math.max(layer[to], layer[at] + 1);
  const layers = [];
  queue.forEach((at) => (layers[layer[at]] ??= []).push(at));
  const row = machine.states.map(() => 0);
  for (const members of layers) {
    const meanRow = (at) => {
      const from = machine.edges.filter((edge) => edge.target === at && layer[edge.source] === layer[at] - 1);
      return from.length ? from.reduce((sum, edge) => sum + row[edge.source], 0) / from.length : 0;
    };
    const wantedRow = new Map(members.map((at) => [at, meanRow(at)]));
    members.sort((one, two) => wantedRow.get(one) - wantedRow.get(two));
    members.forEach((at, place) => { row[at] = place - (members.length - 1) / 2; });
  }
  return { layers, layer, row };
}

const brief = (names, most, length) => {
  const shown = names.slice(0, most).map((name) => clean(name, length)).join(', ');
  return names.length > most ? `${shown} +${names.length - most}` : shown;
};
const widthOf = (text, size = 7) => text.length * size;

function drawing(machine, walk) {
  const { layers, layer, row } = layersOf(machine);
  const upright = $('session').clientWidth < 640;
  const radius = 15;
  const widest = Math.max(1, ...layers.map((members) => members.length));
  const labels = machine.edges.filter((edge) => edge.source !== edge.target).map((edge) => widthOf(brief(edge.symbols, 2, 16)));
  const names = machine.states.map((each) => widthOf(clean(each.name, 18)));
  const readsOf = (most) => machine.edges.filter((edge) => edge.source === edge.target).map((edge) => widthOf(readText(edge, most), 6.4));
  const most = upright || Math.max(0, ...readsOf(3)) <= 150 ? 3 : 2;
  const harms = machine.states.map((_, index) => (walk.harms.has(index) ? widthOf(crossText(walk.harms.get(index)), 7.6) : 0));
  const gap = upright ? 74 : Math.max(104, ...names.map((each) => each + 18), ...labels.map((each) => each + 46), ...readsOf(most).map((each) => each + 10));
  const first = Math.max(60, (names[0] ?? 0) / 2 + 8, ...harms.map((each) => each / 2 + 6));
  const lane = upright ? Math.max(150, ...names.map((each) => each + 60)) : 122;
  const wide = upright ? lane * widest : gap * (layers.length - 1) + 2 * first + 8;
  const { above, below: under } = roomAround(machine, layer, walk);
  const high = upright ? gap * (layers.length - 1) + 92 : lane * (widest - 1) + above + under;
  const at = machine.states.map((_, index) => {
    const along = layer[index] * gap;
    const across = row[index] * lane;
    return upright ? { x: lane * widest / 2 + across - (widest > 1 ? 0 : lane / 2 - 34), y: along + 46 }
      : { x: along + first, y: above + lane * (widest - 1) / 2 + across };
  });
  const room = $('session').clientWidth - 100;
  const scale = wide > room && room / wide > 0.7 ? room / wide : 1; // smaller beats a scroll bar, to a point
  const picture = svg('svg', { width: wide * scale, height: high * scale, viewBox: `0 0 ${wide} ${high}`, role: 'img' });
  picture.append(svg('title', { text: describe(machine, walk) }));
  const below = svg('g');
  const front = svg('g');
  for (const edge of machine.edges) if (edge.source !== edge.target && layer[edge.source] >= 0) drawEdge(below, front, edge, at, layer, walk, upright, radius);
  machine.states.forEach((each, index) => { if (layer[index] >= 0) drawState(front, each, index, at[index], machine, walk, upright, radius, most); });
  picture.append(below, front);
  return el('div', { class: 'wide', tabindex: '0', role: 'group', 'aria-label': 'Automaton' }, picture);
}

const readText = (loop, most) => `\u21bb ${brief(loop.symbols, most, 12)}`;

/** The tools of harmful calls of one state, each with how often. */
function crossText(harms) {
  const counted = [...new Set(harms.map((step) => step.tool))].map((name) => {
    const count = harms.filter((step) => step.tool === name).length;
    return clean(name, 14) + (count > 1 ? ` \u00d7${count}` : '');
  });
  return `\u2717 ${brief(counted, 2, 20)}`;
}

const bendOf = (span) => (span === 1 ? 0 : (span > 1 ? -1 : 1) * (34 + 12 * Math.abs(span)));

/** Pixels above and below the rows of states: for names, reads, harms, and edges that lead far or back. */
function roomAround(machine, layer, walk) {
  const bends = machine.edges.filter((edge) => edge.source !== edge.target && layer[edge.source] >= 0)
    .map((edge) => bendOf(layer[edge.target] - layer[edge.source]) / 2);
  const loops = machine.edges.some((edge) => edge.source === edge.target);
  return {
    above: Math.max(walk.harms.size ? 48 : 30, 22 - Math.min(0, ...bends)),
    below: Math.max(loops ? 56 : 40, 30 + Math.max(0, ...bends)),
  };
}

function describe(machine, walk) {
  const here = walk.here >= 0 ? `, now in ${clean(machine.states[walk.here].name, 40)}` : '';
  const harms = [...walk.harms.values()].reduce((sum, steps) => sum + steps.length, 0);
  return `${plural(machine.states.length, 'state')}, ${plural(walk.edges.size, 'edge')} taken, ${harms} harmful${here}`;
}

function drawEdge(back, front, edge, at, layer, walk, upright, radius) {
  const taken = walk.edges.has(edge) ? 'taken' : '';
  const [from, to] = [at[edge.source], at[edge.target]];
  const span = layer[edge.target] - layer[edge.source];
  const bend = bendOf(span);
  const middle = { x: (from.x + to.x) / 2 + (upright ? -bend : 0), y: (from.y + to.y) / 2 + (upright ? 0 : bend) };
  const toward = (one, two, away) => {
    const far = Math.hypot(two.x - one.x, two.y - one.y) || 1;
    return { x: one.x + (two.x - one.x) / far * away, y: one.y + (two.y - one.y) / far * away };
  };
  const first = toward(from, middle, radius + 1);
  const last = toward(to, middle, radius + 8);
  const tip = toward(to, middle, radius + 1);
  back.append(svg('path', { class: `edge ${taken}`, d: `M${first.x} ${first.y}Q${middle.x} ${middle.y} ${last.x} ${last.y}` }));
  const side = { x: -(tip.y - last.y) * 0.6, y: (tip.x - last.x) * 0.6 };
  back.append(svg('path', { class: `tip ${taken}`, d: `M${tip.x} ${tip.y}L${last.x + side.x} ${last.y + side.y}L${last.x - side.x} ${last.y - side.y}z` }));
  const peak = { x: (from.x + to.x) / 4 + middle.x / 2, y: (from.y + to.y) / 4 + middle.y / 2 };
  const text = svg('text', {
    class: `label halo ${taken} ${upright ? '' : 'mid'}`, x: peak.x + (upright ? 10 : 0), y: peak.y + (upright ? 4 : -8), text: brief(edge.symbols, 2, 16),
  });
  text.append(svg('title', { text: edge.symbols.join(', ') }));
  front.append(text);
}

function drawState(front, each, index, { x, y }, machine, walk, upright, radius, most) {
  const tone = index === walk.here ? 'here' : walk.states.has(index) ? 'seen' : '';
  const dot = svg('circle', { class: `state ${tone}`, cx: x, cy: y, r: radius });
  dot.append(svg('title', { text: each.name }));
  front.append(dot);
  if (each.accepting) front.append(svg('circle', { class: `inner ${tone}`, cx: x, cy: y, r: radius - 3.5 }));
  const reached = walk.states.get(index);
  if (reached) front.append(svg('text', { class: `number ${tone}`, x, y: y + 4, text: String(reached) }));
  if (each.initial) {
    const d = upright ? `M${x} ${y - radius - 16}V${y - radius - 2}` : `M${x - radius - 18} ${y}H${x - radius - 3}`;
    front.append(svg('path', { class: 'edge', d }));
  }
  const place = upright ? { x: x + radius + 8, y: y + 4, class: 'halo' } : { x, y: y + radius + 17, class: 'mid halo' };
  front.append(svg('text', { ...place, text: clean(each.name, 18) }));
  const loop = machine.edges.find((edge) => edge.source === index && edge.target === index);
  const harms = walk.harms.get(index) ?? [];
  if (loop) {
    const text = svg('text', {
      class: upright ? 'soft halo' : 'soft mid halo', x: place.x, y: place.y + 15,
      text: readText(loop, most),
    });
    text.append(svg('title', { text: `stays: ${loop.symbols.join(', ')}` }));
    front.append(text);
  }
  if (!harms.length) return;
  front.append(svg('circle', { class: 'harm-dot', cx: x + radius - 3, cy: y - radius + 3, r: 6 }));
  const text = svg('text', {
    class: upright ? 'harm-text halo' : 'harm-text mid halo',
    x: upright ? x + radius + 8 + widthOf(clean(each.name, 18)) + 10 : x, y: upright ? y + 4 : y - radius - 12,
    text: crossText(harms),
  });
  text.append(svg('title', { text: harms.map((step) => `call ${step.index}: ${words(step.reason)}`).join('; ') }));
  front.append(text);
}
