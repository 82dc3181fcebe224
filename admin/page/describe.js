// describe says of an event what a person needs at a glance: {title, detail}. What an
// appliance wrote is text of any length and kind.

const longest = 300;

export function describe(event) {
  const data = event.data ?? {};
  const { title, detail } =
    data.detection ? detection(event, data) : data.audit ? audit(data.audit) : data.record ? record(event, data.record) : own(event, data);
  return { title: short(title || event.type), detail: short(detail) };
}

function short(value) {
  const text = typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value);
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

const said = (parts) => parts.filter((p) => p !== undefined && p !== null && p !== "").join(" · ");

function detection(event, { detection: d, changes }) {
  const risk = typeof d.risk_score === "number" ? `risk ${d.risk_score}` : "";
  const who = (role) => {
    const found = Array.isArray(d.participants) ? d.participants.find((p) => p?.role === role) : null;
    return found?.hostname || found?.object_value;
  };
  return { title: d.title || d.type, detail: said([action(event), risk, between(who("offender"), who("victim")), ...changed(changes)]) };
}

function* changed(changes) {
  for (const [field, change] of Object.entries(changes ?? {})) {
    yield `${field.replaceAll("_", " ")}: ${plain(change?.from)} → ${plain(change?.to)}`;
  }
}

const plain = (value) => (value === null || value === undefined ? "none" : short(value));

function audit(a) {
  const body = a.body && typeof a.body === "object" ? a.body : {};
  return { title: body.operation || body.details || body.facility || "An entry of the audit log", detail: said([body.user, body.operation && body.details, body.facility].map(short)) };
}

function record(event, r) {
  const source = r._source ?? r;
  return { title: `Record ${event.subject ?? r._type ?? ""}`, detail: said([between(source.clientAddr, source.serverAddr), short(source.host)]) };
}

// between names the two ends of something, as far as they are known.
const between = (from, to) => [from, to].filter(Boolean).map((end) => short(end.value ?? end)).join(" → ");

// own is what the bridge tells itself: the object beside the type says it in words.
function own(event, data) {
  const body = Object.values(data).find((v) => v && typeof v === "object") ?? {};
  return { title: event.type.split(".").slice(-2).join(" "), detail: said([body.reason, body.explanation, body.ticket_id].map(short)) };
}

const action = (event) => event.type.split(".").at(-1);
