/* Times, as the page writes them. They come as Unix nanoseconds. A time is local, unless its text says UTC. */

const dateOf = (ns) => new Date(ns / 1e6);

/** Date and time. */
const when = (ns) => dateOf(ns).toLocaleString();

/** The time of day. */
const clockTime = (ns) => dateOf(ns).toLocaleTimeString();

/** To the millisecond, in UTC: it ends in Z. */
const exactly = (ns) => dateOf(ns).toISOString();

const clockTimeUtc = (ns) => `${exactly(ns).slice(11, 19)} UTC`;

const DAY = { day: 'numeric', month: 'short', timeZone: 'UTC' };
const HOUR = { ...DAY, hour: '2-digit', minute: '2-digit' };

/** Where a step of the overview begins, which is a day or an hour of UTC. Whoever shows it says so. */
const stepUtc = (ns, step) => dateOf(ns).toLocaleString('en-GB', step === 'hour' ? HOUR : DAY);

/** As a field for a time takes it. */
function fieldTime(ns) {
  const date = dateOf(ns);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

/** How long so many milliseconds are. */
function span(ms) {
  if (ms < 0.0005) return '0';
  if (ms < 1) return `${(ms * 1000).toFixed(0)} \u00b5s`;
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  return ms < 3600000 ? `${(ms / 60000).toFixed(1)} min` : `${(ms / 3600000).toFixed(1)} h`;
}

/** How long ago it was. */
function ago(ns) {
  const seconds = Math.max(0, Date.now() / 1000 - ns / 1e9);
  if (seconds < 5) return 'now';
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}
