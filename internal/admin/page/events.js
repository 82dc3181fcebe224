// The list of the latest events.

import { open } from "./api.js";
import { describe, detectionOf } from "./describe.js";
import { openJSON } from "./dialogs.js";
import { label, make, part, sync, time, write } from "./elements.js";
import * as format from "./format.js";
import { messages } from "./messages.js";
import { to } from "./route.js";

// The number of events shown, the number kept of each severity for when the filter
// changes, and the limit of the text kept, in characters.
const maxShown = 100;
const maxOfSeverity = 100;
const maxText = 16 << 20;

// If more events come in a second, the stream is closed: nobody can read them. After the
// next status it is opened again, with the latest events.
const maxPerSecond = 500;

// The severities, lowest first. Events other than detections have none.
const severities = ["", "unknown", "low", "medium", "high", "critical"];

// EventList is the list of events in the page. Its elements are list, empty, note, the
// <select> severity, and the <button> freeze, which stops updates of the list.
export class EventList {
  #bySeverity = new Map(); // newest first
  #text = 0;
  #number = 0;
  #frozen = null; // the entries that are shown while the list is frozen
  #due = false;
  #current = null; // aborts the open stream

  constructor({ list, empty, note, severity, freeze }) {
    Object.assign(this, { list, empty, note, severity, freeze });
    severity.addEventListener("change", () => {
      if (this.#frozen) this.#toggle();
      this.#show();
    });
    freeze.addEventListener("click", () => this.#toggle());
  }

  #toggle() {
    this.#frozen = this.#frozen ? null : this.#selected();
    this.freeze.setAttribute("aria-pressed", String(this.#frozen !== null));
    this.#show();
  }

  // follow reads the stream of events until it ends or stop is called. If a stream is
  // already open, it does nothing. A stream begins with the latest events; those that
  // are already in the list are ignored.
  async follow() {
    if (this.#current) return;
    const reading = (this.#current = new AbortController());
    try {
      await this.#read(reading.signal);
    } catch {
      // The next successful status opens it again; a failing one is shown elsewhere.
    }
    reading.abort();
    if (this.#current === reading) this.#current = null;
  }

  async #read(signal) {
    const answer = await open(`events?last=${maxShown}`, { signal });
    let read = 0;
    let second = performance.now();
    for await (const { event, data } of messages(answer.body)) {
      if (event === "problem") return;
      const parsed = JSON.parse(data);
      this.#add(parsed, data);
      if (performance.now() - second > 1000) {
        second = performance.now();
        read = 0;
      }
      if (++read > maxPerSecond) return;
    }
  }

  stop() {
    this.#current?.abort();
    this.#current = null;
  }

  #add(event, text) {
    const key = `${event.source} ${event.id}`;
    const description = describe(event);
    const list = this.#bySeverity.get(description.severity) ?? [];
    this.#bySeverity.set(description.severity, list);
    if (list.some((e) => e.key === key)) return;
    list.unshift({ key, event, description, text, number: ++this.#number });
    this.#text += text.length;
    while (list.length > maxOfSeverity || (this.#text > maxText && list.length > 1)) this.#text -= list.pop().text.length;
    if (this.#due) return;
    this.#due = true;
    setTimeout(() => {
      this.#due = false;
      this.#show();
    }, 200);
  }

  // #selected returns the entries that match the filter, newest first.
  #selected() {
    const minimum = severities.indexOf(this.severity.value);
    return [...this.#bySeverity]
      .filter(([severity]) => severities.indexOf(severity) >= minimum)
      .flatMap(([, list]) => list)
      .sort((a, b) => b.number - a.number)
      .slice(0, maxShown);
  }

  #show() {
    const selected = this.#selected();
    const rows = this.#frozen ?? selected;
    sync(this.list, rows, { key: (e) => e.key, create, fill: () => {} });
    this.empty.hidden = rows.length > 0;
    write(this.empty, this.severity.value ? "No events of this severity yet." : "No events yet.");
    const newest = this.#frozen?.[0]?.number ?? 0;
    const newer = this.#frozen ? selected.filter((e) => e.number > newest).length : 0;
    write(this.note, this.#frozen ? `frozen; ${newer === maxShown ? `${maxShown} or more` : newer} newer` : "");
  }
}

function create({ event, description: { title, detail, severity }, text }) {
  const row = make("event-row");
  time(part(row, "time"), event.time ?? event.recordedtime, format.toSecond);
  const word = part(row, "severity");
  word.dataset.severity = severity || "none";
  write(word, severity);
  write(part(row, "title"), title);
  write(part(row, "detail"), detail);
  write(part(row, "origin"), event.source.replace("ndrbridge://", ""));
  row.firstElementChild.addEventListener("click", () => openJSON(title, async () => text));
  linkDetection(part(row, "detection"), detectionOf(event));
  return row;
}

// linkDetection makes a link to the page of a detection; null hides it.
export function linkDetection(link, detection) {
  link.hidden = !detection;
  if (!detection) return;
  link.href = to("detections", detection.appliance, detection.id);
  label(link, `Detection ${detection.id} of ${detection.appliance}`);
}
