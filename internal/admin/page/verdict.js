// verdict summarises a status for people: {level, lines}. lines count the problems, if there are
// several, and name each, the most severe first, or report that all is well: {text, target}, where target is the part of
// the page that shows it, as in route.js, or absent. level is bad, warn, paused or ok.

import * as format from "./format.js";

// A clock skew of up to this many seconds is not reported.
const maxSkew = 5;

// A forecast of the journal's filling beyond this many seconds is not reported: no trend
// lasts that long.
const foreseeable = 24 * 3600;

// fails reports whether a stream's polls are failing. A single failed poll, which is
// retried at once, does not count.
export const fails = (stream) => stream.failures > 1;

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

// troubleOf ranks an appliance likewise.
export function troubleOf(a) {
  if (a.reachable === false || a.replaced) return 4;
  if (a.streams.some(fails) || a.tickets?.error) return 3;
  if (a.streams.some((s) => s.dead_letters > 0)) return 2;
  return isSkewed(a) ? 1 : 0;
}

export function verdict(status) {
  const found = [...reload(status.reload), ...clusterProblems(status.cluster), ...journal(status), ...sinks(status), ...appliances(status), ...tickets(status)];
  if (found.length === 0) return { level: "ok", lines: [{ text: allIsWell(status) }] };
  const order = ["bad", "warn", "paused"];
  found.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  const level = found[0].level;
  return { level, lines: found.length === 1 ? found : [{ text: countOf(found, level) }, ...found] };
}

// countOf counts problems, and the most severe of them if there are others.
function countOf(found, level) {
  const severe = found.filter((f) => f.level === level).length;
  return format.counted(found.length, "problem") + (level === "bad" && severe < found.length ? `, ${severe} of them severe` : "");
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

// next describes when a sink tries again.
const next = (s) => (s.next_attempt ? `; next attempt ${format.until(s.next_attempt)}` : " and is retried");

function* reload(r) {
  if (!r || r.ok) return;
  yield { level: "warn", text: `The configuration was not reloaded at ${format.toMinute(r.time)}, and the bridge continues with the previous one: ${sentence(r.error)}` };
}

// clusterProblems yields the problems of a cluster, if there is one.
export function* clusterProblems(c) {
  if (!c) return;
  const of = (level, text) => ({ level, target: ["cluster"], text });
  if (!c.owner) yield of("bad", "No member owns the log of the cluster: no appliance is polled until one takes it.");
  if (c.error) yield of("bad", sentence(c.error));
  const standbys = c.members.filter((m) => m.member !== c.owner);
  if (c.owner && standbys.length === 0) yield of("warn", `${c.owner} is the only member of the cluster: no other takes over if it fails.`);
  else if (c.owner && !standbys.some((m) => m.ready)) yield of("warn", `No other member can take over if ${c.owner} fails.`);
  for (const m of c.members) {
    if (m.error) yield of("warn", `Member ${m.member}: ${sentence(m.error)}`);
  }
  const differing = c.members.filter((m) => m.config === "differs").map((m) => m.member);
  if (differing.length > 0) yield of("warn", `The configuration of ${differing.join(", ")} differs from that of ${c.owner || c.member}: give all members the same one.`);
}

function* journal({ state, sinks }) {
  if (!state.journal.full) return;
  const slowest = sinks.reduce((a, b) => (b.lag_bytes > (a?.lag_bytes ?? 0) ? b : a), null);
  yield {
    level: "bad",
    target: ["journal"],
    text: `The journal is full and polling is paused: fix ${slowest ? `sink ${slowest.name}` : "the sinks"}, set its lag.policy to skip, or raise journal.max_bytes.`,
  };
}

// sorted returns items in the order of their cards: the highest rank first.
const sorted = (items, rank) => items.toSorted((a, b) => rank(b) - rank(a));

function* sinks(status) {
  for (const s of sorted(status.sinks, trouble)) {
    const name = `Sink ${s.name}`;
    switch (s.state) {
      case "halted":
        yield { level: "bad", target: ["sinks", s.name], text: `${name} is halted${since(s.since)}: ${sentence(s.error)} Fix it; delivery resumes automatically.` };
        break;
      case "stuck":
        yield { level: "bad", target: ["sinks", s.name], text: `${name} is stuck${since(s.since)}: ${sentence(s.error)}` };
        break;
      case "retrying":
        yield { level: "warn", target: ["sinks", s.name], text: `${name} has been failing${since(s.since)}${next(s)}: ${sentence(s.error)}` };
        break;
      case "paused":
        yield { level: "paused", target: ["sinks", s.name], text: `${name} is paused${since(s.since)}; ${waiting(s.lag_events)} for it.` };
        break;
    }
    if (fillsSoon(s)) {
      yield { level: "warn", target: ["sinks", s.name], text: `${name} will fill the journal in about ${format.duration(s.fills_journal_in_seconds)}; polling then pauses.` };
    }
    if (s.over_lag) yield { level: "warn", target: ["sinks", s.name], text: `${name} is over its lag budget.` };
    if (s.dead_letters > 0) yield { level: "warn", target: ["sinks", s.name], text: `${name} has ${format.counted(s.dead_letters, "dead letter")}: view the reasons, then requeue or drop them.` };
    if (s.match?.error) yield { level: "warn", target: ["sinks", s.name], text: `${name}: ${matchFailure(s.match)}` };
    // A match of rare events is usual, but one of no events since the start is not.
    if (s.match?.matched === 0 && matchesNothing(s.match)) yield { level: "warn", target: ["sinks", s.name], text: `${name}: ${matchesNothing(s.match)}` };
  }
  for (const s of status.unconfigured ?? []) {
    yield { level: "paused", target: ["sinks", s.name], text: `Sink ${s.name} is no longer configured: delete its state with "ndrbridge state forget ${s.name}".` };
  }
}

function* appliances(status) {
  for (const a of sorted(status.appliances, troubleOf)) {
    const name = `Appliance ${a.name}`;
    if (a.reachable === false) yield { level: "bad", target: ["appliances", a.name], text: `${name} is not reachable${since(a.since)}: ${sentence(a.error ?? "its polls are failing")}` };
    for (const s of a.streams) {
      if (fails(s) && a.reachable !== false) {
        yield { level: "warn", target: ["appliances", a.name], text: `Polls of ${a.name}/${s.stream} are failing and being retried: ${sentence(s.error)}` };
      }
      if (s.dead_letters > 0) {
        yield { level: "warn", target: ["appliances", a.name], text: `${a.name}/${s.stream}: ${format.counted(s.dead_letters, "object")} could not be converted into events.` };
      }
    }
    if (a.replaced) yield { level: "bad", target: ["appliances", a.name], text: `${name}: ${replacedInWords(a.replaced)}` };
    if (isSkewed(a)) yield { level: "warn", target: ["appliances", a.name], text: `${name}: ${clockInWords(a.clock_skew_seconds)}` };
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
    if (a.tickets?.error) {
      yield { level: a.tickets.state === "halted" ? "bad" : "warn", target: ["appliances", a.name], text: `Tickets cannot be written to ${a.name}; their commands are kept: ${sentence(a.tickets.error)}` };
    }
  }
  for (const i of status.intakes ?? []) {
    if (i.error) yield { level: "warn", target: ["tickets"], text: `Ticket commands cannot be received from ${i.intake}; they wait there: ${sentence(i.error)}` };
  }
}
