// The dialog with the dead letters of a sink, or of a stream.

import { inWords, json, pathOf, send, text } from "./api.js";
import { confirm, openInside } from "./dialogs.js";
import { label, make, part, sync, tell, time, write } from "./elements.js";
import * as format from "./format.js";

const pageSize = 50;

// What the dialog shows. An answer that comes after another was opened is passed over.
let current = null;

// openLetters shows the dead letters of an owner: name for a person, path and query
// of it in the API, sink its name where it is one. acted is called after something
// was done to them.
export function openLetters(owner) {
  const dialog = document.getElementById("letters");
  const view = { dialog, owner, letters: [], next: "" };
  current = view;
  write(part(dialog, "title"), `Dead letters of ${owner.name}`);
  write(
    part(dialog, "about"),
    owner.sink
      ? "Events that the sink refused for good. Requeue what it should be sent again; drop what nobody needs."
      : "Objects of the appliance that could not be made into events.",
  );
  part(dialog, "requeue-all").hidden = !owner.sink;
  part(dialog, "more").onclick = () => load(view, view.next);
  part(dialog, "requeue-all").onclick = () => requeueAll(view);
  part(dialog, "drop-all").onclick = () => dropAll(view);
  part(dialog, "list").replaceChildren(); // rows of another owner
  part(dialog, "empty").hidden = true;
  tell(part(dialog, "error"), "");
  showFoot(view);
  dialog.showModal();
  part(dialog, "title").focus();
  load(view, "");
}

const at = (owner, after) => `${pathOf(...owner.path)}/dead?limit=${pageSize}&after=${encodeURIComponent(after)}${owner.query ? `&${owner.query}` : ""}`;

const withQuery = (path, owner) => (owner.query ? `${path}?${owner.query}` : path);

// load asks for a page after a key; "" begins over.
async function load(view, after) {
  const { dialog, owner } = view;
  const error = part(dialog, "error");
  try {
    const page = await json(at(owner, after));
    if (view !== current) return;
    tell(error, "");
    view.letters = after ? [...view.letters, ...page.dead_letters] : page.dead_letters;
    view.next = page.next ?? "";
    show(view);
  } catch (failure) {
    if (view === current) tell(error, `They cannot be shown: ${inWords(failure)}`);
  }
}

function show(view) {
  if (view !== current) return;
  const { dialog } = view;
  const list = part(dialog, "list");
  const focused = list.contains(document.activeElement) ? document.activeElement.closest("li") : null;
  const place = focused ? [...list.children].indexOf(focused) : -1;
  sync(list, view.letters, { key: (l) => l.key, create: (l) => createRow(view, l), fill: () => {} });
  if (focused && !focused.isConnected) {
    const near = list.children[Math.min(place, list.children.length - 1)];
    (near ? part(near, "look") : part(dialog, "title")).focus();
  }
  part(dialog, "empty").hidden = view.letters.length > 0;
  showFoot(view);
}

function showFoot({ dialog, letters, next }) {
  const none = letters.length === 0;
  part(dialog, "more").hidden = !next;
  for (const name of ["requeue-all", "drop-all"]) part(dialog, name).disabled = none;
}

function createRow(view, letter) {
  const { owner } = view;
  const row = make("letter-row");
  const name = letter.event_id ? `event ${letter.event_id}` : letter.key;
  write(part(row, "event"), letter.event_id ?? letter.key);
  time(part(row, "time"), letter.time, format.toSecond);
  write(part(row, "size"), `${letter.class}, ${format.bytes(letter.bytes)}`);
  write(part(row, "reason"), letter.reason);
  const look = part(row, "look");
  label(look, `View ${name}`);
  look.addEventListener("click", () =>
    openInside(`Dead letter: ${name}`, () => text(withQuery(`${pathOf(...owner.path)}/dead/${encodeURIComponent(letter.key)}`, owner))),
  );
  const requeue = part(row, "requeue");
  requeue.hidden = !owner.sink;
  label(requeue, `Requeue ${name}`);
  requeue.addEventListener("click", async () => {
    try {
      await send("POST", pathOf("sinks", owner.sink, "requeue"), { keys: [letter.key] });
    } catch (failure) {
      if (view === current) tell(part(view.dialog, "error"), `It was not requeued: ${inWords(failure)}`);
      return;
    }
    await settled(view, [letter.key]);
  });
  const drop = part(row, "drop");
  label(drop, `Drop ${name}`);
  drop.addEventListener("click", () =>
    confirm({
      title: "Drop this dead letter?",
      text: `What the bridge keeps of ${name} is deleted. ${owner.sink ? `Sink ${owner.sink} never gets it, and it` : "It"} cannot be requeued or looked at afterwards.`,
      yes: "Drop it",
      act: async () => {
        await send("DELETE", withQuery(`${pathOf(...owner.path)}/dead`, owner), { keys: [letter.key] });
        await settled(view, [letter.key]);
      },
    }),
  );
  return row;
}

// settled takes letters out of the list, and asks for those that came in their place.
async function settled(view, keys) {
  view.letters = view.letters.filter((l) => !keys.includes(l.key));
  show(view);
  await Promise.all([view.letters.length === 0 ? load(view, "") : null, view.owner.acted?.()]);
}

function requeueAll(view) {
  const { sink, name, acted } = view.owner;
  confirm({
    title: `Requeue all dead letters of ${name}?`,
    text: `Every one of them, also those not shown here, is sent to ${name} again, marked as redelivered, beside what is new. What it refuses again comes back here.`,
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
    text: `Every one of them, also those not shown here, is deleted for good.${owner.sink ? ` Sink ${owner.sink} never gets these events.` : ""} This cannot be undone.`,
    yes: "Drop all",
    act: async () => {
      await send("DELETE", withQuery(`${pathOf(...owner.path)}/dead`, owner), { all: true });
      await Promise.all([load(view, ""), owner.acted?.()]);
    },
  });
}
