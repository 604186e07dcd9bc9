/* Asking the API, and not too often. */

/** The service gave no answer, or one that says no. */
class NoAnswer extends Error {
  constructor(status) {
    super(`status ${status}`);
    this.status = status;
  }
}

const ask = (path) => answered(path, {});
const tell = (path, body) => answered(path, { method: 'POST', body: JSON.stringify(body) });

async function answered(path, options) {
  const answer = await fetch(path, options).catch(() => { throw new NoAnswer(0); });
  if (!answer.ok) throw new NoAnswer(answer.status);
  return answer.json().catch(() => { throw new NoAnswer(0); });
}

/** Only an answer that did not come is passed over: the stream tells when to ask again. */
function noAnswer(problem) {
  if (!(problem instanceof NoAnswer)) throw problem;
  return problem.status;
}

/** Runs `work` at most every `every` ms, and once more where it was asked for meanwhile. */
function throttled(work, every) {
  let timer = null;
  let again = false;
  let busy = false;
  const run = async () => {
    timer = null;
    busy = true;
    again = false;
    const started = performance.now();
    try {
      await work();
    } finally {
      busy = false;
    }
    const pause = Math.max(every, (performance.now() - started) * SHARE_OF_TIME);
    timer = setTimeout(() => {
      timer = null;
      if (again) run();
    }, pause);
  };
  return () => {
    if (timer === null && !busy) run();
    else again = true;
  };
}
