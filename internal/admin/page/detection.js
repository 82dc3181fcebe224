// The page of one detection: its versions, their deliveries, and its ticket.

import { inWords, pathOf, text } from "./api.js";
import { action, changesOf, describe, isFollowUp, plain, said } from "./describe.js";
import { openJSON } from "./dialogs.js";
import { label, make, part, sync, writeOrHide, time, write } from "./elements.js";
import * as format from "./format.js";
import { raw } from "./pretty.js";
import { showShape } from "./states.js";

const view = document.getElementById("detection");

// The detection that is shown, {appliance, id}. A response for another one is ignored.
let current = null;

// showDetection shows the page of a detection, or hides it if it is null.
export function showDetection(detection) {
  view.hidden = !detection;
  current = detection;
  if (!detection) return;
  write(part(view, "title"), `Detection ${detection.id} of ${detection.appliance}`);
  for (const name of ["summary", "commands-section"]) part(view, name).hidden = true;
  for (const name of ["versions", "commands", "facts", "links"]) part(view, name).replaceChildren();
  writeOrHide(part(view, "error"), "");
  writeOrHide(part(view, "searched"), "Searching the journal…");
  part(view, "title").focus();
  window.scrollTo(0, 0);
  load(detection);
}

part(view, "refresh").addEventListener("click", () => current && load(current));

async function load(detection) {
  const button = part(view, "refresh");
  button.setAttribute("aria-busy", "true");
  try {
    const answer = await text(pathOf("appliances", detection.appliance, "detections", detection.id));
    if (detection !== current) return;
    writeOrHide(part(view, "error"), "");
    show(JSON.parse(answer), raw(answer, "event", 3));
  } catch (failure) {
    if (detection !== current) return;
    writeOrHide(part(view, "error"), `Loading the detection failed: ${inWords(failure)}`);
    writeOrHide(part(view, "searched"), "");
  } finally {
    button.removeAttribute("aria-busy");
  }
}

// show shows what the bridge knows. events are the texts of the versions' events.
function show(found, events) {
  const versions = found.versions.map((version, i) => ({ ...version, text: events[i], first: i === found.versions.length - 1 }));
  const newest = (versions.find((v) => !isFollowUp(v.event)) ?? versions[0])?.event;
  const fields = newest?.data?.detection ?? found.seen?.fields ?? {};
  const described = newest ? describe(newest) : { title: plain(fields.title ?? fields.type ?? ""), severity: "" };
  showSummary(found, fields, described, newest);
  sync(part(view, "versions"), versions, { key: (v) => String(v.seq), create: createVersion, fill: fillVersion });
  writeOrHide(part(view, "searched"), searched(found));
  part(view, "commands-section").hidden = found.commands.length === 0;
  sync(part(view, "commands"), found.commands, { key: (c) => String(c.id), create: () => make("command-row"), fill: fillCommand });
}

function showSummary({ appliance, id, seen }, fields, { title, severity }, newest) {
  part(view, "summary").hidden = false;
  write(part(view, "title"), title || `Detection ${current.id} of ${appliance}`);
  const word = part(view, "severity");
  word.dataset.severity = severity || "none";
  write(word, severity);
  write(part(view, "about"), `Detection ${current.id} of ${appliance}`);
  const pairs = [
    ["Risk score", fields.risk_score],
    ["Type", fields.type],
    ["Status", fields.status],
    ["Resolution", fields.resolution],
    ["Assignee", fields.assignee],
    ["Ticket", fields.ticket_id],
    ["Created", seen?.created, true],
    ["Last change", seen?.mod_time ?? newest?.time, true],
  ].filter(([, value]) => value !== undefined && value !== null && value !== "");
  showPairs(part(view, "facts"), pairs);
  const links = [["Ticket", fields.ticket_url], ["Open at the appliance", newest?.data?.link ?? fields.url]].filter(([, url]) => isLink(url));
  part(view, "links").replaceChildren(
    ...links.map(([name, url]) => {
      const link = document.createElement("a");
      Object.assign(link, { href: url, rel: "noopener noreferrer", target: "_blank", textContent: name });
      return link;
    }),
  );
}

// isLink reports whether a value from an appliance is the address of a web page.
function isLink(value) {
  try {
    return typeof value === "string" && ["http:", "https:"].includes(new URL(value).protocol);
  } catch {
    return false;
  }
}

// showPairs shows names and values in a <dl>; the third of a pair is set if the value is a time.
function showPairs(list, pairs) {
  sync(list, pairs, {
    key: ([name]) => name,
    create: ([name]) => {
      const pair = document.createElement("div");
      const term = pair.appendChild(document.createElement("dt"));
      pair.appendChild(document.createElement("dd")).appendChild(document.createElement("time"));
      term.textContent = name;
      return pair;
    },
    fill: (pair, [, value, isTime]) => {
      const element = pair.lastElementChild.firstElementChild;
      if (isTime) time(element, value, format.toSecond);
      else write(element, plain(value));
    },
  });
}

function searched(found) {
  const some = found.versions.length ? "" : "There is no version in the journal. ";
  const since = found.searched_since ? format.toSecond(found.searched_since) : "";
  let text = "The journal is empty.";
  if (since && found.whole_journal) text = `The journal keeps the versions that were recorded since ${since}.`;
  else if (since) text = `Only the versions that were recorded since ${since} were searched for; there may be older ones in the journal.`;
  return some + text + (found.whole_dead_letters ? "" : " Not all dead letters were searched.");
}

function createVersion(version) {
  const card = make("version-card");
  const button = part(card, "view");
  const name = `version of ${format.toSecond(version.event.time ?? version.event.recordedtime)}`;
  label(button, `View the ${name}`);
  button.addEventListener("click", () => openJSON(`Detection ${current.id}, ${name}`, async () => version.text));
  return card;
}

function fillVersion(card, { event, journalled, sinks, first }) {
  time(part(card, "time"), event.time ?? event.recordedtime, format.toSecond);
  write(part(card, "action"), action(event) + (event.causedby === "writeback" ? ", written by the bridge" : ""));
  const changes = changesOf(event.data?.changes);
  const none = isFollowUp(event) ? said(event) : first ? "" : "No tracked field changed.";
  writeOrHide(part(card, "detail"), [changes.length === 0 && none, !journalled && "No longer in the journal, only in dead letters."].filter(Boolean).join(" "));
  showPairs(part(card, "changes"), changes.map(({ field, change }) => [field, change]));
  sync(part(card, "sinks"), sinks, { key: (s) => s.sink, create: () => make("delivery-row"), fill: fillDelivery });
}

// The symbols and words of the results of a delivery.
const results = {
  delivered: ["ok", "delivered"],
  pending: ["unknown", "pending"],
  filtered: ["paused", "filtered"],
  skipped: ["warn", "skipped"],
  dead_letter: ["bad", "dead letter"],
  queued: ["unknown", "queued for redelivery"],
};

function fillDelivery(row, { sink, result, class: kind, reason }) {
  const [shape, word] = results[result] ?? ["unknown", result];
  showShape(part(row, "result"), shape, `${sink}: ${word}`);
  writeOrHide(part(row, "reason"), reason ? `${kind}: ${reason}` : "");
}

const commandShapes = { pending: "unknown", applied: "ok", rejected: "bad" };

function fillCommand(row, c) {
  showShape(part(row, "status"), commandShapes[c.status] ?? "unknown", c.status);
  const { status, resolution, assignee, detection_id, hide, note, by } = c.command ?? {};
  const what = [
    status && `status ${plain(status)}`,
    resolution && `resolution ${plain(resolution)}`,
    assignee !== undefined && assignee !== null && (assignee === "" ? "unassign" : `assign to ${plain(assignee)}`),
    detection_id && !note && "link the detection",
    hide && `hide the detection until ${format.toSecond(hide.expiration)}`,
    note && "add to the note",
    by && `by ${plain(by)}`,
  ].filter(Boolean);
  write(part(row, "what"), `Command ${c.id}${c.ticket_id ? ` for ticket ${plain(c.ticket_id)}` : ""}: ${what.join(", ")}`);
  time(part(row, "accepted"), c.accepted, format.toSecond);
  writeOrHide(part(row, "reason"), c.reason);
}
