// The latest events, as they are journalled.

import { open } from "./api.js";
import { describe } from "./describe.js";
import { openInside } from "./dialogs.js";
import { make, part, sync, time, write } from "./elements.js";
import * as format from "./format.js";
import { messages } from "./messages.js";

// So many are shown, so many of each severity are kept for when the filter changes,
// and no more text than that.
const shown = 100;
const keptOfOne = 100;
const keptText = 16 << 20;

// More in a second are not read on: nobody could. The next answer of the bridge begins
// again with the latest.
const tooMany = 500;

const severities = { 9: "INFO", 13: "WARN", 17: "ERROR", 21: "FATAL" };

// EventList is the list in the page: its elements are list, empty, note, the <select>
// severity, and the <button> hold, which keeps the list as it is for reading.
export class EventList {
  #bySeverity = new Map(); // newest first
  #text = 0;
  #number = 0;
  #held = null; // what is shown while the list is held
  #due = false;
  #current = null; // aborts the stream that is read

  constructor({ list, empty, note, severity, hold }) {
    Object.assign(this, { list, empty, note, severity, hold });
    severity.addEventListener("change", () => {
      if (this.#held) this.#toggle();
      this.#show();
    });
    hold.addEventListener("click", () => this.#toggle());
  }

  #toggle() {
    this.#held = this.#held ? null : this.#wanted();
    this.hold.setAttribute("aria-pressed", String(this.#held !== null));
    this.#show();
  }

  // follow reads the stream of events until it ends or stop is called, where it is not
  // being read. It begins with the latest, of which those are passed over that are
  // there.
  async follow() {
    if (this.#current) return;
    const reading = (this.#current = new AbortController());
    try {
      await this.#read(reading.signal);
    } catch {
      // It is taken up again once the bridge answers, which is told elsewhere.
    }
    reading.abort();
    if (this.#current === reading) this.#current = null;
  }

  async #read(signal) {
    const answer = await open(`events?last=${shown}`, { signal });
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
      if (++read > tooMany) return;
    }
  }

  stop() {
    this.#current?.abort();
    this.#current = null;
  }

  #add(event, text) {
    const key = `${event.source} ${event.id}`;
    const level = event.severitynumber ?? 0;
    const list = this.#bySeverity.get(level) ?? [];
    this.#bySeverity.set(level, list);
    if (list.some((e) => e.key === key)) return;
    list.unshift({ key, event, text, number: ++this.#number });
    this.#text += text.length;
    while (list.length > keptOfOne || (this.#text > keptText && list.length > 1)) this.#text -= list.pop().text.length;
    if (this.#due) return;
    this.#due = true;
    setTimeout(() => {
      this.#due = false;
      this.#show();
    }, 200);
  }

  #wanted() {
    const least = Number(this.severity.value);
    return [...this.#bySeverity]
      .filter(([level]) => level >= least)
      .flatMap(([, list]) => list)
      .sort((a, b) => b.number - a.number)
      .slice(0, shown);
  }

  #show() {
    const wanted = this.#wanted();
    const rows = this.#held ?? wanted;
    sync(this.list, rows, { key: (e) => e.key, create, fill: () => {} });
    this.empty.hidden = rows.length > 0;
    write(this.empty, Number(this.severity.value) > 0 ? "No events of this severity yet." : "No events yet.");
    const newest = this.#held?.[0]?.number ?? 0;
    const waiting = this.#held ? wanted.filter((e) => e.number > newest).length : 0;
    write(this.note, this.#held ? `held; ${waiting === shown ? `${shown} or more` : waiting} newer` : "");
  }
}

function create({ event, text }) {
  const row = make("event-row");
  const { title, detail } = describe(event);
  time(part(row, "time"), event.time ?? event.recordedtime, format.toSecond);
  const severity = part(row, "severity");
  severity.dataset.level = severities[event.severitynumber] ?? "none";
  write(severity, event.severitytext ?? "");
  write(part(row, "title"), title);
  write(part(row, "detail"), detail);
  write(part(row, "origin"), event.source.replace("ndrbridge://", ""));
  row.firstElementChild.addEventListener("click", () => openInside(title, async () => text));
  return row;
}
