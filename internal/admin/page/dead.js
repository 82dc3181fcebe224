// The dialog with the dead letters of a sink or a stream.

import { inWords, json, pathOf, send, text } from "./api.js";
import { confirm, openJSON } from "./dialogs.js";
import { label, make, part, sync, writeOrHide, time, write } from "./elements.js";
import { linkDetection } from "./events.js";
import * as format from "./format.js";

const pageSize = 50;

// The view that the dialog shows. A response for another view is ignored.
let current = null;

// openDeadLetters shows the dead letters of an owner. name is its name for people, path
// and query locate it in the API, and sink is the sink's name if the owner is one. acted
// is called after dead letters were requeued or dropped.
export function openDeadLetters(owner) {
  const dialog = document.getElementById("dead-letters");
  const view = { dialog, owner, deadLetters: [], groups: [], next: "" };
  current = view;
  write(part(dialog, "title"), `Dead letters of ${owner.name}`);
  write(
    part(dialog, "about"),
    owner.sink
      ? `Events that the sink's target rejected permanently.${"readOnly" in document.body.dataset ? "" : " Requeue events to send them again, or drop them."}`
      : "Objects of the appliance that could not be converted into events.",
  );
  part(dialog, "requeue-all").hidden = !owner.sink;
  part(dialog, "more").onclick = () => load(view, view.next);
  part(dialog, "requeue-all").onclick = () => requeueAll(view);
  part(dialog, "drop-all").onclick = () => dropAll(view);
  part(dialog, "list").replaceChildren(); // rows of another owner
  part(dialog, "empty").hidden = true;
  writeOrHide(part(dialog, "error"), "");
  showFoot(view);
  dialog.showModal();
  part(dialog, "title").focus();
  load(view, "");
}

const at = (owner, after) => `${pathOf(...owner.path)}/dead?limit=${pageSize}&after=${encodeURIComponent(after)}${owner.query ? `&${owner.query}` : ""}`;

const withQuery = (path, owner) => (owner.query ? `${path}?${owner.query}` : path);

// groupsOf returns the path of the groups of an owner's dead letters.
const groupsOf = ({ sink, path, query }) => `dead?${sink ? `sink=${encodeURIComponent(sink)}` : `appliance=${encodeURIComponent(path[1])}&${query}`}`;

// load fetches the page after a key; "" reloads the list and its groups from the beginning.
async function load(view, after) {
  const { dialog, owner } = view;
  const error = part(dialog, "error");
  try {
    const [page, found] = await Promise.all([json(at(owner, after)), after ? null : json(groupsOf(owner))]);
    if (view !== current) return;
    if (found) view.groups = found.groups;
    writeOrHide(error, "");
    view.deadLetters = after ? [...view.deadLetters, ...page.dead_letters] : page.dead_letters;
    view.next = page.next ?? "";
    show(view);
  } catch (failure) {
    if (view === current) writeOrHide(error, `Loading the dead letters failed: ${inWords(failure)}`);
  }
}

// show shows the groups, the largest first, each with those of its dead letters that were loaded.
function show(view) {
  if (view !== current) return;
  const { dialog } = view;
  const list = part(dialog, "list");
  const rows = () => [...list.querySelectorAll(".dead-letter")];
  const focused = list.contains(document.activeElement) ? document.activeElement.closest(".dead-letter") : null;
  const index = rows().indexOf(focused);
  const groups = new Map(view.groups.map((g) => [keyOf(g.class, g.reason), { ...g, rows: [] }]));
  for (const d of view.deadLetters) {
    const key = keyOf(d.class, d.reason_kind);
    // There may be more groups than the bridge returns.
    if (!groups.has(key)) groups.set(key, { class: d.class, reason: d.reason_kind, rows: [] });
    groups.get(key).rows.push(d);
  }
  const shown = [...groups.values()].filter((g) => g.rows.length > 0 || (view.next && g.count > 0));
  sync(list, shown, { key: (g) => keyOf(g.class, g.reason), create: () => make("dead-group"), fill: (element, g) => fillGroup(view, element, g) });
  if (focused && !focused.isConnected) {
    const left = rows();
    const near = left[Math.min(index, left.length - 1)];
    (near ? part(near, "view") : part(dialog, "title")).focus();
  }
  part(dialog, "empty").hidden = view.deadLetters.length > 0;
  showFoot(view);
}

const keyOf = (kind, reason) => `${kind} ${reason}`;

function fillGroup(view, element, g) {
  const count = Math.max(g.count ?? 0, g.rows.length);
  write(part(element, "count"), `${format.count(count)} ×`);
  write(part(element, "kind"), `${g.class}: ${g.reason}`);
  writeOrHide(part(element, "times"), g.first ? `${period(g.first, g.last)}${g.rows.length === 0 ? "; not loaded yet" : ""}` : "");
  sync(part(element, "rows"), g.rows, { key: (d) => d.key, create: (d) => createRow(view, d), fill: () => {} });
}

const period = (first, last) => {
  const [from, until] = [format.toSecond(first), format.toSecond(last)];
  return from === until ? `at ${from}` : `from ${from} to ${until}`;
};

function showFoot({ dialog, deadLetters, next }) {
  const none = deadLetters.length === 0;
  part(dialog, "more").hidden = !next;
  for (const name of ["requeue-all", "drop-all"]) part(dialog, name).disabled = none;
}

function createRow(view, deadLetter) {
  const { owner } = view;
  const row = make("dead-letter-row");
  const name = deadLetter.event_id ? `event ${deadLetter.event_id}` : deadLetter.key;
  write(part(row, "title"), deadLetter.title || deadLetter.event_id || deadLetter.key);
  writeOrHide(part(row, "event"), deadLetter.title ? deadLetter.event_id : "");
  time(part(row, "time"), deadLetter.time, format.toSecond);
  write(part(row, "size"), format.bytes(deadLetter.bytes));
  writeOrHide(part(row, "reason"), deadLetter.reason === deadLetter.reason_kind ? "" : deadLetter.reason);
  const [appliance, id] = deadLetter.detection?.split("/") ?? [];
  linkDetection(part(row, "detection"), appliance && /^\d{1,19}$/.test(id) ? { appliance, id } : null);
  const button = part(row, "view");
  label(button, `View ${name}`);
  button.addEventListener("click", () =>
    openJSON(`Dead letter: ${name}`, () => text(withQuery(`${pathOf(...owner.path)}/dead/${encodeURIComponent(deadLetter.key)}`, owner))),
  );
  const requeue = part(row, "requeue");
  requeue.hidden = !owner.sink;
  label(requeue, `Requeue ${name}`);
  requeue.addEventListener("click", async () => {
    try {
      await send("POST", pathOf("sinks", owner.sink, "requeue"), { keys: [deadLetter.key] });
    } catch (failure) {
      if (view === current) writeOrHide(part(view.dialog, "error"), `Requeueing failed: ${inWords(failure)}`);
      return;
    }
    await remove(view, [deadLetter.key]);
  });
  const drop = part(row, "drop");
  label(drop, `Drop ${name}`);
  drop.addEventListener("click", () =>
    confirm({
      title: "Drop this dead letter?",
      text: `The dead letter of ${name} is deleted. ${owner.sink ? `Sink ${owner.sink} never receives it, and it` : "It"} can no longer be requeued or viewed.`,
      yes: "Drop it",
      act: async () => {
        await send("DELETE", withQuery(`${pathOf(...owner.path)}/dead`, owner), { keys: [deadLetter.key] });
        await remove(view, [deadLetter.key]);
      },
    }),
  );
  return row;
}

// remove removes dead letters from the list, and reloads it if it is empty.
async function remove(view, keys) {
  for (const d of view.deadLetters.filter((d) => keys.includes(d.key))) {
    const group = view.groups.find((g) => g.class === d.class && g.reason === d.reason_kind);
    if (group) group.count--;
  }
  view.deadLetters = view.deadLetters.filter((d) => !keys.includes(d.key));
  show(view);
  await Promise.all([view.deadLetters.length === 0 ? load(view, "") : null, view.owner.acted?.()]);
}

function requeueAll(view) {
  const { sink, name, acted } = view.owner;
  confirm({
    title: `Requeue all dead letters of ${name}?`,
    text: `All of them, including those not shown here, are sent to ${name} again, marked as redelivered, alongside new events. Events that are rejected again return here.`,
    yes: "Requeue all",
    act: async () => {
      await send("POST", pathOf("sinks", sink, "requeue"), { all: true });
      await Promise.all([load(view, ""), acted?.()]);
    },
  });
}

function dropAll(view) {
  const { owner } = view;
  confirm({
    title: `Drop all dead letters of ${owner.name}?`,
    text: `All of them, including those not shown here, are deleted.${owner.sink ? ` Sink ${owner.sink} never receives these events.` : ""} This cannot be undone.`,
    yes: "Drop all",
    act: async () => {
      await send("DELETE", withQuery(`${pathOf(...owner.path)}/dead`, owner), { all: true });
      await Promise.all([load(view, ""), owner.acted?.()]);
    },
  });
}
