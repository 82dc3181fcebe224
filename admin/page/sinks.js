// The sinks, and what an operator does to them.

import { inWords, pathOf, send } from "./api.js";
import { chart } from "./charts.js";
import { label, make, part, sync, tell, time, write } from "./elements.js";
import * as format from "./format.js";
import { openLetters } from "./dead.js";
import { showError, showShape, showState } from "./states.js";
import { fillsSoon } from "./verdict.js";

// showSinks shows those of a status. acted is called after something was done to one.
export function showSinks(parent, status, acted) {
  const all = [...status.sinks, ...(status.unconfigured ?? []).map((s) => ({ ...s, unconfigured: true }))];
  sync(parent, all, { key: (s) => s.name, create: (s) => createSink(s.name, acted), fill: fillSink });
}

function createSink(name, acted) {
  const card = make("sink-card");
  const error = part(card, "action-error");
  const act = async (button, action) => {
    if (button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true"); // a button that is disabled would lose the focus
    tell(error, "");
    try {
      await send("POST", pathOf("sinks", name, action));
    } catch (failure) {
      tell(error, `It was not done: ${inWords(failure)}`);
    }
    await acted();
    button.removeAttribute("aria-busy");
  };
  const toggle = part(card, "switch");
  toggle.addEventListener("click", () => act(toggle, toggle.dataset.action));
  const retry = part(card, "retry");
  retry.addEventListener("click", () => act(retry, "resume"));
  part(card, "look").addEventListener("click", () => openLetters({ name: `sink ${name}`, path: ["sinks", name], sink: name, acted }));
  return card;
}

function fillSink(card, s) {
  write(part(card, "name"), s.name);
  write(part(card, "kind"), s.kind ?? "");
  const state = part(card, "state");
  if (s.unconfigured) showShape(state, "unknown", "Not configured");
  else showState(state, s.state);
  card.dataset.state = s.state ?? "";
  part(card, "since-when").hidden = !s.since || s.state === "running";
  if (s.since) time(part(card, "since"), s.since, format.toMinute);
  const toggle = part(card, "switch");
  const paused = s.state === "paused";
  toggle.hidden = Boolean(s.unconfigured);
  toggle.dataset.action = paused ? "resume" : "pause";
  write(toggle, paused ? "Resume" : "Pause");
  label(toggle, `${paused ? "Resume" : "Pause"} sink ${s.name}`);
  const retry = part(card, "retry");
  // A button that has the focus stays where it is until it is left.
  retry.hidden = s.state !== "halted" && document.activeElement !== retry;
  label(retry, `Try now to deliver to sink ${s.name}`);
  showError(part(card, "error"), s.state, paused ? "" : s.error);

  write(part(card, "lag"), s.lag_events > 0 ? format.counted(s.lag_events, "event") : "none");
  write(part(card, "lag-note"), s.lag_events > 0 ? `for ${format.duration(s.lag_seconds)}` : "");
  write(part(card, "rate"), format.rate(s.events_per_second));
  write(part(card, "delivered"), format.count(s.delivered));

  tell(part(card, "fills"), fillsSoon(s) ? `Will fill the journal in about ${format.duration(s.fills_journal_in_seconds)}.` : "");
  tell(part(card, "over"), s.over_lag ? "Over its lag budget." : "");
  tell(part(card, "again"), s.redeliveries > 0 ? `${format.counted(s.redeliveries, "event")} queued to be delivered again.` : "");
  tell(part(card, "skipped"), s.skipped > 0 ? `${format.counted(s.skipped, "event")} skipped for good.` : "");
  part(card, "dead").hidden = s.dead_letters === 0;
  const share = s.dead_letter_max_bytes ? ` of ${format.bytes(s.dead_letter_max_bytes)}` : "";
  write(part(card, "dead-count"), `${format.counted(s.dead_letters, "dead letter")}, ${format.bytes(s.dead_letter_bytes)}${share}`);
  label(part(card, "look"), `View the dead letters of sink ${s.name}`);
}

// chartSinks draws what the history knows of each sink.
export function chartSinks(parent, history) {
  for (const h of history.sinks) {
    const card = parent.querySelector(`[data-key="${CSS.escape(h.sink)}"]`);
    if (!card) continue;
    const subject = `Sink ${h.sink}`;
    const step = history.step_seconds;
    chart(part(card, "rate-chart"), { subject, what: "Rate", values: h.events_per_second, step, format: format.rate });
    chart(part(card, "lag-chart"), { subject, what: "Lag", values: h.lag_events, step, format: (n) => format.counted(n, "event") });
  }
}
