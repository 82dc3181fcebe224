// verdict summarises a status for people: {level, title, lines}. lines are the faults, the most
// severe first: {level, target, name, cause, next, detail, section}. target is the part of the page
// that shows it, as in route.js, cause a few words, next the time of the next attempt, detail what
// that part does not show, and section the title of its section of the run book. target, next and
// detail may be absent. level is bad, warn, paused or ok.

import * as format from "./format.js";

// A clock skew of up to this many seconds is not reported.
const maxSkew = 5;

// A forecast of the journal's filling beyond this many seconds is not reported: no trend
// lasts that long.
const foreseeable = 24 * 3600;

// fails reports whether a stream's polls are failing. A single failed poll, which is
// retried at once, does not count, nor does an optional stream that the appliance does not offer.
export const fails = (stream) => stream.failures > 1 && !stream.off;

// fillsSoon reports whether a sink will fill the journal within a day.
export const fillsSoon = (sink) => sink.fills_journal_in_seconds > 0 && sink.fills_journal_in_seconds < foreseeable;

// matchFailure describes the failures of a sink's match since the bridge started. There is no
// error if none failed since the sink was last changed.
export const matchFailure = ({ errors, error }) =>
  `its match failed for ${format.counted(errors, "event")}${error ? `, and on_error decided what happened to them: ${sentence(error)}` : ", but for none since it was changed."}`;

// matchesNothing describes a sink's match that has matched none of the last 1,000 events, and
// returns "" for others.
export const matchesNothing = (match) =>
  match?.consecutive_filtered >= 1000 ? `its match has matched none of the last ${format.counted(match.consecutive_filtered, "event")}${since(match.filtered_since)}.` : "";

// isSkewed reports whether an appliance's clock is wrong enough to be reported.
export const isSkewed = (appliance) => Math.abs(appliance.clock_skew_seconds ?? 0) > maxSkew;

// trouble ranks a sink by how much attention it needs; 0: none.
export function trouble(s) {
  if (s.state === "halted" || s.state === "stuck") return 5;
  if (s.state === "retrying") return 4;
  if (s.over_lag || fillsSoon(s)) return 3;
  if (s.dead_letters > 0 || s.match?.error) return 2;
  return s.state === "paused" ? 1 : 0;
}

// writersOf returns the status of each writer of an appliance, with what it writes.
export const writersOf = (a) =>
  Object.entries({ Tickets: a.tickets, "Tuning rules": a.rules, Notes: a.notes }).flatMap(([what, writer]) => (writer ? [{ what, ...writer }] : []));

// troubleOf ranks an appliance likewise.
export function troubleOf(a) {
  if (a.reachable === false || a.replaced) return 4;
  if (a.streams.some(fails) || writersOf(a).some((w) => w.error)) return 3;
  if (a.streams.some((s) => s.dead_letters > 0)) return 2;
  return isSkewed(a) ? 1 : 0;
}

export function verdict(status) {
  const found = [...reload(status.reload), ...clusterProblems(status.cluster), ...journal(status), ...sinks(status), ...appliances(status), ...tickets(status)];
  if (found.length === 0) return { level: "ok", title: allIsWell(status), lines: [] };
  const order = ["bad", "warn", "paused"];
  found.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  const faults = found.filter((f) => f.level !== "paused").length;
  const rest = found.length - faults;
  const title = [faults && format.counted(faults, "fault"), rest && format.counted(rest, "reminder")].filter(Boolean).join(", ");
  return { level: found[0].level, title, lines: found };
}

function allIsWell(status) {
  const streams = status.appliances.reduce((n, a) => n + a.streams.length, 0);
  if (status.sinks.length === 0) return `${are(streams, "stream")} polled, but no sink is configured.`;
  return `All is well: ${are(streams, "stream")} polled and delivered to ${format.counted(status.sinks.length, "sink")}.`;
}

const are = (n, thing) => `${format.counted(n, thing)} ${n === 1 ? "is" : "are"}`;

// sentence adds a full stop if text does not end a sentence.
const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

const waiting = (events) => (events === 0 ? "no events wait" : `${format.counted(events, "event")} wait${events === 1 ? "s" : ""}`);

const since = (time) => (time ? ` since ${format.toMinute(time)}` : "");

function* reload(r) {
  if (!r || r.ok) return;
  yield { level: "warn", name: "Configuration", cause: `not reloaded at ${format.toMinute(r.time)}`, detail: sentence(r.error), section: "NdrbridgeReloadFailed" };
}

// clusterProblems yields the problems of a cluster, if there is one.
export function* clusterProblems(c) {
  if (!c) return;
  const of = (level, cause, section, name = "Cluster") => ({ level, target: ["cluster"], name, cause, section });
  if (!c.owner) yield of("bad", "no member polls", "NdrbridgeClusterWithoutOwner");
  if (c.error) yield of("bad", "log cannot be used", "NdrbridgeClusterWithoutOwner");
  const standbys = c.members.filter((m) => m.member !== c.owner);
  if (c.owner && standbys.length === 0) yield of("warn", "only one member", "NdrbridgeClusterWithoutStandby");
  else if (c.owner && !standbys.some((m) => m.ready)) yield of("warn", "no standby is ready", "NdrbridgeClusterWithoutStandby");
  for (const m of c.members) {
    if (m.error) yield of("warn", "reports an error", "NdrbridgeClusterCannotFollow", `Member ${m.member}`);
    if (m.config === "differs") yield of("warn", "configuration differs", "NdrbridgeClusterCannotFollow", `Member ${m.member}`);
  }
}

function* journal({ state, sinks }) {
  if (!state.journal.full) return;
  const slowest = sinks.reduce((a, b) => (b.lag_bytes > (a?.lag_bytes ?? 0) ? b : a), null);
  yield {
    level: "bad",
    target: ["journal"],
    name: "Journal",
    cause: "full, polling is paused",
    detail: `Fix ${slowest ? `sink ${slowest.name}` : "the sinks"}, set its lag.policy to skip, or raise journal.max_bytes.`,
    section: "NdrbridgeJournalFull",
  };
}

// sorted returns items in the order of their cards: the highest rank first.
const sorted = (items, rank) => items.toSorted((a, b) => rank(b) - rank(a));

// The level and the section of the run book of a sink's state.
const states = { halted: ["bad", "NdrbridgeSinkHalted"], stuck: ["bad", "NdrbridgeSinkRetrying"], retrying: ["warn", "NdrbridgeSinkRetrying"] };

function* sinks(status) {
  for (const s of sorted(status.sinks, trouble)) {
    const of = (level, cause, section) => ({ level, target: ["sinks", s.name], name: `Sink ${s.name}`, cause, section });
    if (states[s.state]) {
      const [level, section] = states[s.state];
      yield { ...of(level, `${s.state}: ${s.cause || "see its error"}`, section), next: s.next_attempt };
    }
    if (s.state === "paused") yield of("paused", `paused, ${waiting(s.lag_events)}`, "NdrbridgeSinkPaused");
    if (fillsSoon(s)) yield of("warn", `fills journal in ${format.duration(s.fills_journal_in_seconds)}`, "NdrbridgeJournalFullSoon");
    if (s.over_lag) yield of("warn", "over its lag budget", "NdrbridgeSinkLagging");
    if (s.dead_letters > 0) yield of("warn", format.counted(s.dead_letters, "dead letter"), "NdrbridgeDeadLetters");
    if (s.match?.error) yield of("warn", `match failed for ${format.counted(s.match.errors, "event")}`, "NdrbridgeMatchFailing");
    // A match of rare events is usual, but one of no events since the start is not.
    if (s.match?.matched === 0 && matchesNothing(s.match)) yield of("warn", "match matches no events", "NdrbridgeMatchFailing");
  }
  for (const s of status.unconfigured ?? []) {
    yield { level: "paused", target: ["sinks", s.name], name: `Sink ${s.name}`, cause: "no longer configured", detail: `Delete its state with "ndrbridge state forget ${s.name}".`, section: "A sink is no longer configured" };
  }
}

// keySection returns the section about a key that the appliance refused, if that is the cause.
const keySection = (cause) => (cause?.startsWith("key rejected") ? "NdrbridgeKeyRefused" : undefined);

function* appliances(status) {
  for (const a of sorted(status.appliances, troubleOf)) {
    const of = (level, cause, section, name = `Appliance ${a.name}`) => ({ level, target: ["appliances", a.name], name, cause, section });
    const next = a.streams.map((s) => s.next_attempt).filter(Boolean).sort()[0];
    if (a.reachable === false) yield { ...of("bad", `not reachable: ${a.cause || "see its error"}`, keySection(a.cause) ?? "NdrbridgeApplianceUnreachable"), next };
    for (const s of a.streams) {
      const name = `Stream ${a.name}/${s.stream}`;
      if (fails(s) && a.reachable !== false) yield { ...of("warn", `polls fail: ${s.cause || "see its error"}`, keySection(s.cause) ?? "NdrbridgeSourceSilent", name), next: s.next_attempt };
      if (s.dead_letters > 0) yield of("warn", `${format.counted(s.dead_letters, "object")} not converted`, "NdrbridgeSourceDeadLetters", name);
    }
    if (a.replaced) yield of("bad", "another appliance answers", "Another appliance answers");
    if (isSkewed(a)) yield of("warn", `clock ${format.duration(Math.abs(a.clock_skew_seconds))} ${a.clock_skew_seconds > 0 ? "ahead" : "behind"}`, "NdrbridgeClockSkew");
  }
}

// replacedInWords describes that another appliance seems to answer under a name.
export const replacedInWords = (replaced) =>
  `another appliance seems to answer under this name: ${replaced.reason}. Give it a name of its own, or delete the state of the previous one with "ndrbridge state forget --appliance".`;

// clockInWords describes how an appliance's clock differs from the bridge's.
export const clockInWords = (skew) =>
  `its clock is ${format.duration(Math.abs(skew))} ${skew > 0 ? "ahead of" : "behind"} the bridge's; check the time service of both.`;

function* tickets(status) {
  for (const a of status.appliances) {
    for (const w of writersOf(a)) {
      const halted = w.state === "halted";
      if (w.error) yield { level: halted ? "bad" : "warn", target: ["appliances", a.name], name: `${w.what} of ${a.name}`, cause: `cannot be written: ${w.cause || "see its error"}`, section: halted ? "NdrbridgeWriterHalted" : "NdrbridgeWriterRetrying" };
    }
  }
  for (const i of status.intakes ?? []) {
    if (i.error) yield { level: "warn", target: ["tickets"], name: `Tickets from ${i.intake}`, cause: `cannot be received: ${i.cause || "see its error"}`, section: "NdrbridgeTicketIntakeDown" };
  }
}
