/* Buttons that copy: ids, and lines to run. */

/** A button that copies `text`; `what` names it for who cannot see the page, and `id` keeps its focus. */
function copyButton(id, text, what) {
  const button = el('button', { type: 'button', class: 'copy', id, 'aria-label': `Copy ${what}`, title: `Copy ${what}` });
  button.addEventListener('click', async () => {
    const done = await copy(text);
    button.classList.toggle('done', done);
    $('news').textContent = done ? `Copied ${what}` : `Could not copy ${what}`;
    setTimeout(() => button.classList.remove('done'), 1500);
  });
  return button;
}

/** The clipboard's own interface is there on loopback and under TLS alone. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text) {
  const field = el('textarea', { class: 'unseen', 'aria-hidden': 'true' });
  const focused = document.activeElement;
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  focused?.focus({ preventScroll: true });
  return done;
}

/** Lines to run, as they are, with a button that copies them. */
function commands(id, lines, what) {
  return el('div', { class: 'commands' },
    el('pre', { tabindex: '0', 'aria-label': what }, ...lines.map((line) => `${clean(line, 500)}\n`)),
    copyButton(id, lines.join('\n'), what));
}
