/* What stands where no session is chosen: how to send one, with the addresses of this service. */

const isAnywhere = (host) => ['0.0.0.0', '[::]', '::', '*', ''].includes(host);

/** Where an agent sends to. A service that listens everywhere is reached as this page was. */
function endpoint(address, tls) {
  if (address.startsWith('unix:')) return address;
  const colon = address.lastIndexOf(':');
  const host = address.slice(0, colon);
  return `${tls ? 'https' : 'http'}://${isAnywhere(host) ? location.hostname : host}${address.slice(colon)}`;
}

/** The variables of every OpenTelemetry SDK. */
function exporterLines(protocol, address, { tls, token }) {
  const lines = [
    'export OTEL_SERVICE_NAME=my-agent',
    `export OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint(address, tls)}`,
    `export OTEL_EXPORTER_OTLP_PROTOCOL=${protocol}`,
  ];
  if (token) lines.push('export OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20$TOKEN"');
  return lines;
}

function showEmpty() {
  document.title = 'offrails';
  if (state.bare) showSetup();
  else if (comparison()) loadCompare();
  else loadOverview();
}

function showSetup() {
  const { about } = state;
  const { http, grpc } = about.receivers ?? {};
  const box = el('section', { class: 'card setup' },
    el('h2', { text: 'No sessions yet' }),
    el('p', { text: 'A session appears as soon as the first tool call of an agent has ended.' }));
  const part = (title, id, lines, what) => box.append(el('h3', { text: title }), commands(id, lines, what));
  if (http && !http.startsWith('unix:')) part('Set where the agent runs: OTLP over HTTP', 'copy-http', exporterLines('http/protobuf', http, about), 'the lines for HTTP');
  if (grpc) part(http ? 'Or OTLP over gRPC' : 'Set where the agent runs: OTLP over gRPC', 'copy-grpc', exporterLines('grpc', grpc, about), 'the lines for gRPC');
  if (http || grpc) part('See whether spans arrive', 'copy-doctor', [`offrails doctor ${endpoint(grpc ?? http, about.tls)}`], 'the test command');
  part('Draft a spec from what has arrived', 'copy-init', [`offrails init --from ${location.host} --out my_agent.yaml`], 'the command for a spec');
  $('session').replaceChildren(box);
}

function showGone(wanted, status) {
  $('session').replaceChildren(
    el('a', { class: 'back', href: '#/sessions', text: '\u2190 All sessions' }),
    el('div', { class: 'empty' }, el('p', {}, el('b', { text: wanted.id }), status === 404 ? 'is not known, or no longer.' : 'is not live, and past sessions cannot be read now.')));
}
