/* Where to look in a trace: the link to the place that shows traces, and the ids to find a call by. */

/** The trace where there is a place that shows it, and the ids to find it by. */
function whereToLook(step, judgement) {
  const ids = el('p', { class: 'ids' }, 'Trace ', el('bdi', { text: step.trace_id }),
    copyButton(`copy-why-trace-${step.index}`, step.trace_id, 'the trace id'), ' span ', el('bdi', { text: step.span_id }),
    copyButton(`copy-span-${step.index}`, step.span_id, 'the span id'));
  const link = traceLink(step, judgement);
  return link ? el('div', {}, link, ids) : ids;
}

function traceLink(step, judgement) {
  if (!state.about.trace_url) return null;
  const fill = { trace_id: step.trace_id, span_id: step.span_id, session: judgement.session };
  const href = state.about.trace_url.replace(/\{(trace_id|span_id|session)\}/g, (_, name) => encodeURIComponent(fill[name]));
  if (!/^(https?:\/\/|\/)/.test(href)) return null;
  return el('p', {}, el('a', { class: 'open', href, rel: 'noopener noreferrer', target: '_blank', text: `Open the trace of call ${step.index}` }));
}
