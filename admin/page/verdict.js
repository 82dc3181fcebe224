// verdict says in words what is wrong with a bridge, the worst first, or that all is
// well: {level, lines}. level is bad, warn, held or ok.

import * as format from "./format.js";

// A clock that is off by fewer seconds is not worth a word.
const skew = 5;

// That a journal will be full in more seconds is not either: nothing grows for so long.
const foreseeable = 24 * 3600;

// fails reports whether the polls of a stream fail. One that did is tried again at once,
// and is no trouble yet.
export const fails = (stream) => stream.failures > 1;

// fillsSoon reports whether a sink will fill the journal within a day.
export const fillsSoon = (sink) => sink.fills_journal_in_seconds > 0 && sink.fills_journal_in_seconds < foreseeable;

// isSkewed reports whether an appliance's clock is off.
export const isSkewed = (appliance) => Math.abs(appliance.clock_skew_seconds ?? 0) > skew;

export function verdict(status) {
  const found = [...journal(status), ...sinks(status), ...appliances(status), ...tickets(status)];
  if (found.length === 0) return { level: "ok", lines: [allIsWell(status)] };
  const order = ["bad", "warn", "held"];
  found.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  return { level: found[0].level, lines: found.map((f) => f.text) };
}

function allIsWell(status) {
  const streams = status.appliances.reduce((n, a) => n + a.streams.length, 0);
  if (status.sinks.length === 0) return `${are(streams, "stream")} read, and there is no sink to deliver to.`;
  return `All is well: ${are(streams, "stream")} read, ${are(status.sinks.length, "sink")} delivered to.`;
}

const are = (n, thing) => `${format.counted(n, thing)} ${n === 1 ? "is" : "are"}`;

// sentence ends text as a sentence does.
const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

const waiting = (events) => (events === 0 ? "nothing waits" : `${format.counted(events, "event")} wait${events === 1 ? "s" : ""}`);

const since = (time) => (time ? ` since ${format.toMinute(time)}` : "");

function* journal({ state, sinks }) {
  if (!state.journal.full) return;
  const slowest = sinks.reduce((a, b) => (b.lag_bytes > (a?.lag_bytes ?? 0) ? b : a), null);
  yield {
    level: "bad",
    text: `The journal is full, and polling waits: fix ${slowest ? `sink ${slowest.name}` : "the sinks"}, give it lag.policy skip, or raise journal.max_bytes.`,
  };
}

function* sinks(status) {
  for (const s of status.sinks) {
    const name = `Sink ${s.name}`;
    switch (s.state) {
      case "halted":
        yield { level: "bad", text: `${name} is halted${since(s.since)}: ${sentence(s.error)} Fix that; it is tried again by itself.` };
        break;
      case "retrying":
        yield { level: "warn", text: `${name} fails${since(s.since)}, and is tried again: ${sentence(s.error)}` };
        break;
      case "paused":
        yield { level: "held", text: `${name} is paused${since(s.since)}; ${waiting(s.lag_events)} for it.` };
        break;
    }
    if (fillsSoon(s)) {
      yield { level: "warn", text: `${name} will fill the journal in about ${format.duration(s.fills_journal_in_seconds)}; then polling waits.` };
    }
    if (s.over_lag) yield { level: "warn", text: `${name} is over its lag budget.` };
    if (s.dead_letters > 0) yield { level: "warn", text: `${name} has ${format.counted(s.dead_letters, "dead letter")}: look why, then requeue or drop.` };
  }
  for (const s of status.unconfigured ?? []) {
    yield { level: "held", text: `Sink ${s.name} is not configured any more: stop the bridge, and drop what is kept of it with "ndrbridge state forget ${s.name}".` };
  }
}

function* appliances(status) {
  for (const a of status.appliances) {
    const name = `Appliance ${a.name}`;
    if (a.reachable === false) yield { level: "bad", text: `${name} is not reachable${since(a.since)}: ${sentence(a.error ?? "its polls fail")}` };
    for (const s of a.streams) {
      if (fails(s) && a.reachable !== false) {
        yield { level: "warn", text: `Polls of ${a.name}/${s.stream} fail, and are tried again: ${sentence(s.error)}` };
      }
      if (s.dead_letters > 0) {
        yield { level: "warn", text: `${a.name}/${s.stream}: ${format.counted(s.dead_letters, "object")} could not be made into events.` };
      }
    }
    if (a.replaced) yield { level: "bad", text: `${name}: ${replacedInWords(a.replaced)}` };
    if (isSkewed(a)) yield { level: "warn", text: `${name}: ${clockInWords(a.clock_skew_seconds)}` };
  }
}

// replacedInWords says that another appliance answers under a name.
export const replacedInWords = (replaced) =>
  `another appliance seems to answer under this name, since ${replaced.reason}. Give it a name of its own, or stop the bridge and forget the other with "ndrbridge state forget --appliance".`;

// clockInWords says how an appliance's clock differs from the bridge's.
export const clockInWords = (skew) =>
  `its clock is ${format.duration(Math.abs(skew))} ${skew > 0 ? "ahead of" : "behind"} the bridge's; check the time service of both.`;

function* tickets(status) {
  for (const a of status.appliances) {
    if (a.tickets?.error) {
      yield { level: a.tickets.state === "halted" ? "bad" : "warn", text: `Tickets are not written to ${a.name}, and their commands are kept: ${sentence(a.tickets.error)}` };
    }
  }
  for (const d of status.intakes ?? []) {
    if (d.error) yield { level: "warn", text: `Ticket commands from ${d.intake} are not received, and wait there: ${sentence(d.error)}` };
  }
}
