// The sinks, with the buttons to control them.

import { act, pathOf, send } from "./api.js";
import { chart } from "./charts.js";
import { label, make, number, part, sync, writeOrHide, time, write } from "./elements.js";
import { prepareFold, setWell } from "./fold.js";
import * as format from "./format.js";
import { order } from "./order.js";
import { openDeadLetters } from "./dead.js";
import { showError, showShape, showState } from "./states.js";
import { fillsSoon, matchFailure, matchesNothing, trouble } from "./verdict.js";

// From this many sinks on, a wide page shows them as a table.
const tableFrom = 5;

// showSinks shows the sinks of a status. acted is called after a sink was paused or
// resumed.
export function showSinks(parent, status, acted) {
  const all = [...status.sinks, ...(status.unconfigured ?? []).map((s) => ({ ...s, unconfigured: true }))];
  const key = (s) => s.name;
  parent.toggleAttribute("data-many", all.length >= tableFrom);
  parent.previousElementSibling.hidden = all.length < tableFrom;
  sync(parent, order(parent, all, key, trouble), { key, create: (s) => createSink(s.name, acted), fill: fillSink });
}

function createSink(name, acted) {
  const card = make("sink-card");
  prepareFold(card);
  const error = part(card, "action-error");
  const onClick = (button, action, answered) =>
    button.addEventListener("click", () => act(button, error, () => send("POST", pathOf("sinks", name, action ?? button.dataset.action)).then(answered), acted));
  onClick(part(card, "switch"));
  onClick(part(card, "retry"), "resume");
  onClick(part(card, "test"), "send", ({ delivered, findings }) => {
    const sent = part(card, "test-result");
    sent.className = delivered ? "note" : "trouble";
    const texts = findings.map((f) => [`${f.step}: ${f.result === "ok" || f.result === "remark" ? "" : `${f.result}, `}${f.detail}`, f.advice].filter(Boolean).join("; "));
    writeOrHide(sent, [delivered ? "The test event was delivered." : "The test event was not delivered.", ...texts].join("\n"));
  });
  part(card, "view").addEventListener("click", () => openDeadLetters({ name: `sink ${name}`, path: ["sinks", name], sink: name, acted }));
  return card;
}

function fillSink(card, s) {
  write(part(card, "name"), s.name);
  write(part(card, "kind"), [s.kind, s.preset].filter(Boolean).join(", "));
  writeOrHide(part(card, "target"), s.target);
  setWell(card, trouble(s) === 0 && s.state === "running", `sink ${s.name}`);
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
  writeOrHide(part(card, "cause"), paused ? "" : s.cause);
  const tests = part(card, "test");
  tests.hidden = Boolean(s.unconfigured);
  label(tests, `Send test event to sink ${s.name}`);
  const retry = part(card, "retry");
  // A focused button stays visible until it loses the focus.
  retry.hidden = s.state !== "halted" && document.activeElement !== retry;
  label(retry, `Retry now to deliver to sink ${s.name}`);
  showError(part(card, "error"), s.state, paused ? "" : s.error);

  write(part(card, "lag"), s.lag_events > 0 ? format.counted(s.lag_events, "event") : "none");
  write(part(card, "lag-note"), s.lag_events > 0 ? `for ${format.duration(s.lag_seconds)}` : "");
  part(card, "lag").title = s.lag_events > 0 ? [format.exact(s.lag_events), format.bytes(s.lag_bytes)].filter(Boolean).join(", ") : "";
  write(part(card, "rate"), format.rate(s.events_per_second));
  number(part(card, "delivered"), s.delivered);
  const last = part(card, "last");
  if (s.last_delivery) time(last, s.last_delivery, format.toSecond);
  else write(last, s.delivered > 0 ? "not known" : "none");
  write(part(card, "last-note"), s.last_delivery || s.delivered > 0 ? "" : "since the start");
  part(card, "next-fact").hidden = !s.next_attempt;
  if (s.next_attempt) time(part(card, "next"), s.next_attempt, format.until);
  part(card, "match-fact").hidden = !s.match;
  if (s.match) {
    number(part(card, "matched"), s.match.matched);
    write(part(card, "filtered"), `${format.count(s.match.filtered)} did not`);
  }
  part(card, "match-errors").className = s.match?.error ? "caution" : "note";
  writeOrHide(part(card, "match-errors"), s.match?.errors > 0 ? `Note: ${matchFailure(s.match)}` : "");

  writeOrHide(part(card, "match-none"), matchesNothing(s.match) && `Note: ${matchesNothing(s.match)}`);
  writeOrHide(part(card, "fills"), fillsSoon(s) ? `Will fill the journal in about ${format.duration(s.fills_journal_in_seconds)}.` : "");
  writeOrHide(part(card, "over"), s.over_lag ? "Over its lag budget." : "");
  writeOrHide(part(card, "parked"), s.parked > 0 ? `${format.counted(s.parked, "event")} parked: sent again later, while others go on.` : "");
  writeOrHide(part(card, "redeliveries"), s.redeliveries > 0 ? `${format.counted(s.redeliveries, "event")} queued for redelivery.` : "");
  writeOrHide(part(card, "skipped"), s.skipped > 0 ? `${format.counted(s.skipped, "event")} skipped and not delivered.` : "");
  part(card, "dead").hidden = s.dead_letters === 0;
  const share = s.dead_letter_max_bytes ? ` of ${format.bytes(s.dead_letter_max_bytes)}` : "";
  write(part(card, "dead-count"), `${format.counted(s.dead_letters, "dead letter")}, ${format.bytes(s.dead_letter_bytes)}${share}`);
  label(part(card, "view"), `View the dead letters of sink ${s.name}`);
}

// chartSinks draws the charts of each sink.
export function chartSinks(parent, history) {
  for (const h of history.sinks) {
    const card = parent.querySelector(`[data-key="${CSS.escape(h.sink)}"]`);
    if (!card) continue;
    const subject = `Sink ${h.sink}`;
    const times = { step: history.step_seconds, until: history.until };
    chart(part(card, "rate-chart"), { subject, what: "Rate", values: h.events_per_second, ...times, format: format.rate });
    chart(part(card, "lag-chart"), { subject, what: "Lag", values: h.lag_events, ...times, format: (n) => format.counted(Math.round(n), "event") });
  }
}
