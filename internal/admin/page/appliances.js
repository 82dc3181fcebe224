// The appliances and their streams.

import { act, pathOf, send } from "./api.js";
import { chart } from "./charts.js";
import { label, make, number, part, sync, writeOrHide, time, write } from "./elements.js";
import { prepareFold, setWell } from "./fold.js";
import * as format from "./format.js";
import { openDeadLetters } from "./dead.js";
import { order } from "./order.js";
import { showError, showShape, showState } from "./states.js";
import { clockInWords, fails, isSkewed, replacedInWords, troubleOf, writersOf } from "./verdict.js";

// showAppliances shows the appliances of a status. acted is called after one was polled.
export function showAppliances(parent, appliances, acted) {
  const key = (a) => a.name;
  sync(parent, order(parent, appliances, key, troubleOf), { key, create: (a) => createAppliance(a.name, acted), fill: fillAppliance });
}

function createAppliance(name, acted) {
  const card = make("appliance-card");
  prepareFold(card);
  const poll = part(card, "poll");
  label(poll, `Poll now: appliance ${name}`);
  poll.addEventListener("click", () => act(poll, part(card, "action-error"), () => send("POST", pathOf("appliances", name, "poll")), acted));
  return card;
}

function fillAppliance(card, a) {
  write(part(card, "name"), a.name);
  setWell(card, troubleOf(a) === 0 && a.reachable === true, `appliance ${a.name}`);
  const state = part(card, "state");
  if (a.reachable === false) showShape(state, "bad", ["Not reachable", a.cause].filter(Boolean).join(": "));
  else if (a.streams.some(fails)) showShape(state, "warn", "Polls failing");
  else if (a.reachable) showShape(state, "ok", "Reachable");
  else showShape(state, "unknown", "Not known yet");
  write(part(card, "about"), [a.url, a.firmware && `firmware ${a.firmware}`].filter(Boolean).join(" · "));
  const shown = a.reachable === false || !a.streams.some((s) => s.error); // else beside its stream
  const since = a.reachable === false && a.since ? `Since ${format.toMinute(a.since)}: ` : "";
  writeOrHide(part(card, "error"), shown && a.error ? since + a.error : "");
  writeOrHide(part(card, "replaced"), a.replaced ? `Note: ${replacedInWords(a.replaced)}` : "");
  writeOrHide(part(card, "clock"), isSkewed(a) ? `Note: ${clockInWords(a.clock_skew_seconds)}` : "");
  sync(part(card, "streams"), a.streams, {
    key: (s) => s.stream,
    create: (s) => createStream(a.name, s.stream),
    fill: (row, s) => fillStream(row, a, s),
  });
  const writers = writersOf(a);
  part(card, "writers").hidden = writers.length === 0;
  sync(part(card, "writers"), writers, { key: (w) => w.what, create: () => make("writer-row"), fill: fillWriter });
}

function createStream(appliance, stream) {
  const row = make("stream-row");
  part(row, "view").addEventListener("click", () =>
    openDeadLetters({ name: `${appliance}/${stream}`, path: ["appliances", appliance], query: `stream=${encodeURIComponent(stream)}` }),
  );
  return row;
}

function fillStream(row, a, s) {
  write(part(row, "name"), s.stream);
  write(part(row, "read"), s.position ? "read up to" : s.last_success ? "read" : "not read yet");
  const position = part(row, "position");
  position.hidden = !s.position;
  if (s.position) time(position, s.position, format.toSecond);
  write(part(row, "lag"), format.duration(s.lag_seconds));
  writeOrHide(part(row, "answered"), s.failures === 0 ? "" : s.last_success ? `last answer ${format.toSecond(s.last_success)}` : "no answer since the start");
  write(part(row, "rate"), format.rate(s.events_per_second));
  number(part(row, "events"), s.events);
  writeOrHide(part(row, "backlog"), s.backlog ? backlogInWords(s.backlog) : "");
  part(row, "error").className = fails(s) ? "caution" : "note";
  writeOrHide(part(row, "error"), s.failures > 0 && a.reachable !== false ? `${format.counted(s.failures, "poll")} failed: ${s.error}` : "");
  part(row, "dead").hidden = s.dead_letters === 0;
  write(part(row, "dead-count"), `${format.counted(s.dead_letters, "object")} could not be made into events.`);
  label(part(row, "view"), `View the dead letters of ${a.name}/${s.stream}`);
}

function backlogInWords(b) {
  const rate = b.events_per_second;
  const left = b.left_seconds ? `; about ${format.duration(b.left_seconds)} left` : "";
  return `Reading a backlog: at ${format.toSecond(b.at)}, ${format.duration(b.behind_seconds)} behind${rate ? `, ${format.rate(rate)}` : ""}${left}.`;
}

function fillWriter(row, w) {
  showState(part(row, "state"), w.state, w.state === "running" ? `${w.what} are written` : `Writing of ${w.what.toLowerCase()}: ${w.state}`);
  showError(part(row, "error"), w.state, w.error);
}

// chartStreams draws the charts of each stream.
export function chartStreams(parent, history) {
  for (const h of history.streams) {
    const card = parent.querySelector(`[data-key="${CSS.escape(h.appliance)}"]`);
    const row = card?.querySelector(`.stream[data-key="${CSS.escape(h.stream)}"]`);
    if (!row) continue;
    const subject = `${h.appliance}/${h.stream}`;
    const times = { step: history.step_seconds, until: history.until };
    chart(part(row, "rate-chart"), { subject, what: "Rate", values: h.events_per_second, ...times, format: format.rate });
    chart(part(row, "lag-chart"), { subject, what: "Lag", values: h.lag_seconds, ...times, format: format.duration });
  }
}
