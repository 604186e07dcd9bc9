/* The prefix tree of a learnt reference: what earlier runs did, and the way this session took. A line is
   as strong as the runs that went there; the most frequent way is the straight one. */

const NODE = 11;
const BOLD = 7.8; // pixels a letter of a way taken

function treeCard(judgement, tree) {
  const spec = state.specs.get(judgement.spec);
  if (!spec || !tree) return null;
  const runs = tree.nodes[0]?.runs ?? 0;
  const card = el('section', { class: 'card' },
    el('h3', {}, 'Way through the learnt runs', el('small', { text: `${judgement.spec}, version ${judgement.spec_version}, ${plural(runs, 'run')}` })));
  for (const alarm of judgement.alarms ?? []) card.append(alarmLine(alarm));
  card.append(treeDrawing(tree, judgement));
  card.append(el('p', { class: 'legend-line' },
    'A number is how many learnt runs came by; a double ring, where some ended. ',
    el('span', { class: 'key taken' }), ' this session ', el('span', { class: 'key skipped' }), ' usual, but left out ',
    el('span', { class: 'diamond', text: '\u25c6' }), ' where it departs'));
  if (tree.more) card.append(el('p', { class: 'legend-line', text: `${plural(tree.more, 'rarer step')} not drawn.` }));
  return card;
}

function alarmLine(alarm) {
  const right = alarm.precision === null || alarm.precision === undefined ? 'how often it is right is not known'
    : `right in ${Math.round(alarm.precision * 100)} % of cases`;
  return el('p', { class: `alarm ${alarm.level}` }, el('b', { text: ALARMS[alarm.alarm] ?? words(alarm.alarm) }),
    clean(`: ${LEVELS[alarm.level] ?? alarm.level}; ${right}, learnt from ${plural(alarm.support, 'run')}.`));
}

/** Which edges were taken and which left out (an edge is named by the node it leads to), and where it departs. */
function wayIn(tree) {
  const way = { taken: new Set(), skipped: new Set(), departs: new Map(), here: 0 };
  let at = 0;
  for (const step of tree.way) {
    if (step.node !== at) {
      way.taken.add(step.node);
      for (let up = tree.nodes[step.node].parent; up !== at && up >= 0; up = tree.nodes[up].parent) if (!way.taken.has(up)) way.skipped.add(up);
    }
    if (step.kind) way.departs.set(step.node, [...(way.departs.get(step.node) ?? []), step]);
    at = step.node;
  }
  way.here = tree.way.length ? at : -1;
  return way;
}

function childrenOf(nodes) {
  const children = nodes.map(() => []);
  nodes.forEach((node, place) => { if (node.parent >= 0) children[node.parent].push(place); });
  for (const each of children) each.sort((one, two) => nodes[two].runs - nodes[one].runs || one - two);
  return children;
}

/** Wide: a column a call, the most frequent child straight on. Narrow: a line a call, lesser ways set in. */
function placed(nodes, upright, gap) {
  const children = childrenOf(nodes);
  const at = nodes.map(() => ({ x: 0, y: 0 }));
  let lines = 0;
  let most = 0;
  const stack = [[0, 0, 0]]; // node, column, row or indent
  while (stack.length) {
    const [node, column, row] = stack.pop();
    if (upright) at[node] = { x: 24 + row * 26, y: 24 + 42 * lines++ };
    else at[node] = { x: 30 + column * gap, y: 0 };
    most = Math.max(most, column);
    const next = children[node].map((child, place) => [child, column + 1, row + (place ? 1 : 0)]);
    stack.push(...(upright ? next : next.reverse()));
  }
  if (!upright) lines = rows(children, at);
  return { at, wide: upright ? 0 : 60 + most * gap + 30, high: lines * (upright ? 42 : 58) + (upright ? 10 : 26) };
}

/** Gives each leaf a row; a node is in the row of its most frequent child. */
function rows(children, at) {
  let next = 0;
  const open = [[0, 0]];
  while (open.length) {
    const top = open.at(-1);
    const [node, seen] = top;
    if (seen === 0) at[node].y = 44 + 58 * next;
    if (seen < children[node].length) {
      if (seen > 0) next += 1;
      top[1] += 1;
      open.push([children[node][seen], 0]);
    } else open.pop();
  }
  return next + 1;
}

function treeDrawing(tree, judgement) {
  const upright = $('session').clientWidth < 640;
  const { nodes } = tree;
  const gap = Math.max(96, ...nodes.map((node) => widthOf(clean(node.tool, 18), BOLD) + 2 * NODE + 22));
  const { at, wide, high } = placed(nodes, upright, gap);
  const way = wayIn(tree);
  const room = $('session').clientWidth - (upright ? 60 : 100);
  const width = upright ? room : wide;
  const scale = !upright && wide > room && room / wide > 0.7 ? room / wide : 1;
  const picture = svg('svg', { width: width * scale, height: high * scale, viewBox: `0 0 ${width} ${high}`, role: 'img' });
  picture.append(svg('title', { text: treeText(tree, way) }));
  const front = svg('g');
  nodes.forEach((node, place) => {
    if (node.parent >= 0) drawBranch(picture, front, nodes, place, at, way, upright);
  });
  nodes.forEach((node, place) => drawNode(front, node, at[place], place === way.here ? 'here' : way.taken.has(place) || (place === 0 && way.here >= 0) ? 'seen' : '', way.departs.get(place), judgement, upright, upright ? 22 : Math.floor((gap - 24) / BOLD)));
  picture.append(front);
  return el('div', { class: 'wide', tabindex: '0', role: 'group', 'aria-label': 'Prefix tree' }, picture);
}

function treeText(tree, way) {
  return `${plural(tree.nodes.length - 1, 'step')} of the learnt runs, ${way.taken.size} taken, ${way.skipped.size} left out, ${plural(tree.way.filter((step) => step.kind).length, 'departure')}`;
}

function drawBranch(back, front, nodes, place, at, way, upright) {
  const [from, to] = [at[nodes[place].parent], at[place]];
  const tone = way.taken.has(place) ? 'taken' : way.skipped.has(place) ? 'skipped' : '';
  const strong = 1.2 + 5 * Math.sqrt(nodes[place].runs / Math.max(1, nodes[0].runs));
  const bend = Math.min(30, (to.x - from.x) / 2);
  const d = upright ? `M${from.x} ${from.y}V${to.y}H${to.x}`
    : to.y === from.y ? `M${from.x} ${from.y}H${to.x}`
      : `M${from.x} ${from.y}C${from.x + bend} ${from.y} ${from.x + 4} ${to.y} ${from.x + bend + 14} ${to.y}H${to.x}`;
  const line = svg('path', { class: `branch ${tone}`, d, 'stroke-width': tone === 'taken' ? Math.max(3, strong) : tone ? 2.5 : strong });
  if (tone === 'taken') front.prepend(line);
  else back.append(line);
  const name = svg('text', {
    class: `label halo ${tone} ${upright ? '' : 'end'}`, x: upright ? to.x + NODE + 9 : to.x - NODE - 8, y: upright ? to.y + 4 : to.y - 7,
    text: clean(nodes[place].tool, 18),
  });
  name.append(svg('title', { text: `${nodes[place].tool}: ${plural(nodes[place].runs, 'run')}` }));
  front.append(name);
}

function drawNode(front, node, { x, y }, tone, departs, judgement, upright, fit) {
  const dot = svg('circle', { class: `state ${tone}`, cx: x, cy: y, r: NODE });
  dot.append(svg('title', { text: `${plural(node.runs, 'run')} came by${node.ends ? `, ${node.ends} ended here` : ''}` }));
  front.append(dot);
  if (node.ends) front.append(svg('circle', { class: `ring ${tone}`, cx: x, cy: y, r: NODE + 3 }));
  front.append(svg('text', { class: `number runs ${tone}`, x, y: y + 4, text: String(node.runs) }));
  if (!departs) return;
  const tools = departs.map((step) => `${step.index} ${clean(judgement.steps.find((each) => each.index === step.index)?.tool ?? '')}`);
  const text = svg('text', {
    class: 'departs halo', x: upright ? x + NODE + 9 + widthOf(clean(node.tool, 18), BOLD) + 10 : x - 5, y: upright ? y + 4 : y - NODE - 11,
    text: `\u25c6 ${brief(tools, 1, tools.length > 1 ? fit - 3 : fit)}`,
  });
  text.append(svg('title', { text: departs.map((step) => `call ${step.index}: ${DEPARTURES[step.kind] ?? step.kind}`).join('; ') }));
  front.append(text);
}
