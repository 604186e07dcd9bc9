/* Texts and elements. What agents say (names, ids, arguments) enters the document by textContent and
   nowhere else: there is no innerHTML here, and the policy of the page would not run it. */

'use strict';

const PAGE_SIZE = 50; // sessions
const PAGES_MAX = 200; // the API skips 10,000 sessions at most
const CHOICES_MAX = 200;
const CALLS_SHOWN = 60;
const LIST_EVERY_MS = 1000;
const OVERVIEW_EVERY_MS = 2000;
const SHARE_OF_TIME = 10; // a list that takes long to get is asked for less often
const TEXT_MAX = 300;
const SENTENCE_MAX = 400;
const SVG = 'http://www.w3.org/2000/svg';
const $ = (id) => document.getElementById(id);

/** One visible line: control and direction-changing characters become a mark. */
function clean(text, most = TEXT_MAX) {
  const shown = String(text ?? '').replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu, '\u00b7');
  return shown.length > most ? shown.slice(0, most - 1) + '\u2026' : shown;
}

function el(name, props = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (key === 'class') made.className = value;
    else if (key === 'text') made.textContent = clean(value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function svg(name, props = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(props)) {
    if (key === 'text') made.textContent = clean(value, 60);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** The parts of a sentence of the service, which has names between backticks. */
const sentence = (text) => clean(text, SENTENCE_MAX).split('`').map((part, place) => (place % 2 ? el('code', { text: part }) : part));

const words = (reason) => clean(reason).replaceAll('_', ' ');
const score = (value) => (value === null || value === undefined ? '\u2013' : value.toFixed(3));
const plural = (count, one) => `${count.toLocaleString('en')} ${one}${count === 1 ? '' : 's'}`;
