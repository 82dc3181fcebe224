// verdict summarises a status for people: {level, lines}. lines name the problems, the
// most severe first, or report that all is well. level is bad, warn, paused or ok.

import { shardName } from "./cluster.js";
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

// isSkewed reports whether an appliance's clock is wrong enough to be reported.
export const isSkewed = (appliance) => Math.abs(appliance.clock_skew_seconds ?? 0) > maxSkew;

export function verdict(status) {
  const found = [...cluster(status.cluster), ...journal(status), ...sinks(status), ...appliances(status), ...tickets(status)];
  if (found.length === 0) return { level: "ok", lines: [allIsWell(status)] };
  const order = ["bad", "warn", "paused"];
  found.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  return { level: found[0].level, lines: found.map((f) => f.text) };
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

function* cluster(c) {
  if (!c) return;
  const named = (shards) => `shard${shards.length === 1 ? "" : "s"} ${shards.map(shardName).join(", ")}`;
  const orphans = c.shards.filter((s) => !s.owner);
  if (orphans.length > 0) yield { level: "bad", text: `No member owns ${named(orphans)}: the appliances there are not polled until a member takes over.` };
  const alone = c.members.length === 1;
  if (alone) yield { level: "warn", text: `${c.member} is the only member of the cluster: no other takes over if it fails.` };
  const unfollowed = c.shards.filter((s) => s.owner && s.followers.length === 0);
  if (!alone && unfollowed.length > 0) yield { level: "warn", text: `No member follows ${named(unfollowed)}: a takeover would take longer.` };
  for (const s of c.shards) {
    if (s.error) yield { level: "warn", text: `Shard ${shardName(s)} at ${c.member}: ${sentence(s.error)}` };
  }
  const differing = c.members.filter((m) => m.config === "differs").map((m) => m.member);
  if (differing.length > 0) yield { level: "warn", text: `The configuration of ${differing.join(", ")} differs from that of ${c.member}: give all members the same one.` };
}

function* journal({ state, sinks }) {
  if (!state.journal.full) return;
  const slowest = sinks.reduce((a, b) => (b.lag_bytes > (a?.lag_bytes ?? 0) ? b : a), null);
  yield {
    level: "bad",
    text: `The journal is full and polling is paused: fix ${slowest ? `sink ${slowest.name}` : "the sinks"}, set its lag.policy to skip, or raise journal.max_bytes.`,
  };
}

function* sinks(status) {
  for (const s of status.sinks) {
    const name = `Sink ${s.name}`;
    switch (s.state) {
      case "halted":
        yield { level: "bad", text: `${name} is halted${since(s.since)}: ${sentence(s.error)} Fix it; delivery resumes automatically.` };
        break;
      case "retrying":
        yield { level: "warn", text: `${name} is failing${since(s.since)} and being retried: ${sentence(s.error)}` };
        break;
      case "paused":
        yield { level: "paused", text: `${name} is paused${since(s.since)}; ${waiting(s.lag_events)} for it.` };
        break;
    }
    if (fillsSoon(s)) {
      yield { level: "warn", text: `${name} will fill the journal in about ${format.duration(s.fills_journal_in_seconds)}; polling then pauses.` };
    }
    if (s.over_lag) yield { level: "warn", text: `${name} is over its lag budget.` };
    if (s.dead_letters > 0) yield { level: "warn", text: `${name} has ${format.counted(s.dead_letters, "dead letter")}: view the reasons, then requeue or drop them.` };
  }
  for (const s of status.unconfigured ?? []) {
    yield { level: "paused", text: `Sink ${s.name} is no longer configured: delete its state with "ndrbridge state forget ${s.name}".` };
  }
}

function* appliances(status) {
  for (const a of status.appliances) {
    const name = `Appliance ${a.name}`;
    if (a.reachable === false) yield { level: "bad", text: `${name} is not reachable${since(a.since)}: ${sentence(a.error ?? "its polls are failing")}` };
    for (const s of a.streams) {
      if (fails(s) && a.reachable !== false) {
        yield { level: "warn", text: `Polls of ${a.name}/${s.stream} are failing and being retried: ${sentence(s.error)}` };
      }
      if (s.dead_letters > 0) {
        yield { level: "warn", text: `${a.name}/${s.stream}: ${format.counted(s.dead_letters, "object")} could not be converted into events.` };
      }
    }
    if (a.replaced) yield { level: "bad", text: `${name}: ${replacedInWords(a.replaced)}` };
    if (isSkewed(a)) yield { level: "warn", text: `${name}: ${clockInWords(a.clock_skew_seconds)}` };
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
      yield { level: a.tickets.state === "halted" ? "bad" : "warn", text: `Tickets cannot be written to ${a.name}; their commands are kept: ${sentence(a.tickets.error)}` };
    }
  }
  for (const i of status.intakes ?? []) {
    if (i.error) yield { level: "warn", text: `Ticket commands cannot be received from ${i.intake}; they wait there: ${sentence(i.error)}` };
  }
}
