// Descriptions of events for people. Values from an appliance may be of any type and length.

import { toSecond } from "./format.js";

const maxLength = 300;

// detectionOf returns the detection of an event, {appliance, id}, or null for other events.
export const detectionOf = (event) =>
  event.data?.detection && event.appliance && /^\d{1,19}$/.test(event.subject ?? "") ? { appliance: event.appliance, id: event.subject } : null;

// describe summarises an event: {title, detail, severity}.
export function describe(event) {
  const data = event.data ?? {};
  const { title, detail } =
    data.detection ? detection(event, data) : data.audit ? audit(data.audit) : data.record ? record(event, data.record) : own(event, data);
  return { title: short(title || event.type), detail: short(detail), severity: severity(event) };
}

// severity returns the severity of an event; "" if it has none. Events that an earlier version
// stored have OpenTelemetry's names.
const severities = { INFO: "low", WARN: "medium", ERROR: "high", FATAL: "critical" };
const severity = (event) => severities[event.severitytext] ?? event.severitytext ?? "";

function short(value) {
  const text = typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value);
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
}

const join = (parts) => parts.filter((p) => p !== undefined && p !== null && p !== "" && p !== false).join(" · ");

function detection(event, { detection: d, changes }) {
  const risk = typeof d.risk_score === "number" ? `risk ${d.risk_score}` : "";
  const who = (role) => {
    const found = Array.isArray(d.participants) ? d.participants.find((p) => p?.role === role) : null;
    return found?.hostname || found?.object_value;
  };
  return { title: d.title || d.type, detail: join([action(event), risk, between(who("offender"), who("victim")), ...changed(changes), said(event)]) };
}

// isFollowUp reports whether an event is about a detection, but not one of its versions.
export const isFollowUp = (event) => Boolean(event.data?.detection) && !["created", "updated"].includes(action(event));

// said returns what a follow-up says; "" for other events.
export function said(event) {
  if (!isFollowUp(event)) return "";
  const { visibility, note, context, evidence } = event.data;
  const list = (value) => (Array.isArray(value) ? value : []);
  return join(
    [
      visibility?.explanation,
      ...list(visibility?.rules).map((rule) => join([`rule ${plain(rule?.id)}`, rule?.description, rule?.author])),
      note?.author,
      note?.text,
      ...list(context?.devices).map((d) => join([d?.name ?? `device ${plain(d?.id)}`, d?.critical && "critical", d?.on_watchlist && "on the watchlist"])),
      evidence && `${list(evidence.records).length} of ${plain(evidence.total)} records`,
    ].map(short),
  );
}

function* changed(changes) {
  for (const { field, change } of changesOf(changes)) yield `${field}: ${change}`;
}

// changesOf returns what changed in a version of a detection: {field, change} of each.
export const changesOf = (changes) =>
  Object.entries(changes ?? {}).map(([field, change]) => ({
    field: field.replaceAll("_", " "),
    change: short([`${valueOf(field, change?.from)} → ${valueOf(field, change?.to)}`, ...moved(change)].join(", ")),
  }));

// moved describes which participants differ.
function* moved(change) {
  for (const [verb, key] of [["joined", "added"], ["left", "removed"], ["changed", "changed"]])
    if (Array.isArray(change?.[key])) yield `${verb}: ${change[key].map((p) => plain(p?.hostname || p?.object_value || p?.username || p?.id)).join(", ")}`;
}

// valueOf formats the value of a field of a detection. A time is a number of milliseconds since
// the epoch; one outside of the years 2001 to 5138 is shown as it is.
const valueOf = (field, value) => (field.endsWith("_time") && typeof value === "number" && value > 1e12 && value < 1e14 ? toSecond(value) : plain(value));

export const plain = (value) => (value === null || value === undefined ? "none" : short(value));

function audit(a) {
  const body = a.body && typeof a.body === "object" ? a.body : {};
  return { title: body.operation || body.details || body.facility || "Audit log entry", detail: join([body.user, body.operation && body.details, body.facility].map(short)) };
}

function record(event, r) {
  const source = r._source ?? r;
  return { title: `Record ${event.subject ?? r._type ?? ""}`, detail: join([between(source.clientAddr, source.serverAddr), short(source.host)]) };
}

// between returns the two ends of a connection, as far as they are known.
const between = (from, to) => [from, to].filter(Boolean).map((end) => short(end.value ?? end)).join(" → ");

// own summarises one of the bridge's own events by the first object in its data.
function own(event, data) {
  const body = Object.values(data).find((v) => v && typeof v === "object") ?? {};
  return { title: event.type.split(".").slice(-2).join(" "), detail: join([body.name, body.reason, body.explanation, body.ticket_id, body.description].map(short)) };
}

export const action = (event) => event.type.split(".").at(-1);
