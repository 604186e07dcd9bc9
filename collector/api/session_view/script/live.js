/* What keeps the page up to date. */

const refreshList = throttled(loadList, LIST_EVERY_MS);
const refreshNow = () => { loadList(); };
const refreshSession = throttled(loadSession, 300);
const refreshOverview = throttled(loadOverview, OVERVIEW_EVERY_MS);
const SETTLE_MS = 3000;

let lost = null;

/** While the connection is down, what is shown is old, and says so. */
function setLive(on) {
  $('live').textContent = on ? 'live' : 'reconnecting';
  $('live').classList.toggle('on', on);
  $('banner').hidden = on;
  lost = on ? null : lost ?? Date.now() * 1e6;
  $('banner').textContent = lost
    ? `No connection to the service since ${clockTime(lost)}. What you see may be out of date; this page tries again by itself.` : '';
}

let settle = null;

/** Verdicts become final a while after their calls, and judges answer after the end, which no event tells: asks again until then. */
function untilFinal(found) {
  clearTimeout(settle);
  const open = found.sessions.some(({ steps }) => steps.some(({ final }) => !final)) || waitsForJudges(found);
  settle = open ? setTimeout(refreshSession, SETTLE_MS) : null;
}

function changed(event) {
  const news = JSON.parse(event.data);
  refreshList();
  if (!state.chosen) refreshOverview();
  const mine = state.chosen && news.sessions.some(([namespace, id]) => namespace === state.chosen.namespace && id === state.chosen.id);
  if (!mine && !news.more) return;
  refreshSession();
}

let stream = null;

/** One stream while the page is looked at: a browser has six connections for all windows of a host. */
function listen() {
  stream?.close();
  stream = null;
  if (document.hidden) return;
  stream = new EventSource('api/v1/events');
  stream.addEventListener('hello', () => { setLive(true); refreshList(); refreshSession(); });
  stream.addEventListener('change', changed);
  stream.addEventListener('error', () => {
    setLive(false);
    if (stream?.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  });
}

function start() {
  startFilters();
  $('text').addEventListener('keydown', (event) => {
    if (event.key !== 'ArrowDown') return;
    event.preventDefault();
    $('sessions').querySelector('a')?.focus();
  });
  $('sessions').addEventListener('keydown', moveInList);
  addEventListener('hashchange', choose);
  addEventListener('popstate', () => { readFilters(); showUsed(); refreshNow(); choose(); });
  document.addEventListener('visibilitychange', listen);
  let resized = null;
  addEventListener('resize', () => { clearTimeout(resized); resized = setTimeout(() => { refreshSession(); refreshOverview(); }, 200); });
  setInterval(refreshList, 30000); // ages go on
  refreshList();
  ask('api/v1/about').then((about) => { state.about = about; }).catch(noAnswer).finally(() => { choose(); listen(); });
}

start();
