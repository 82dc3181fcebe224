// The overall status at the top of the page, and announcements for screen readers.

import { icon, label, make, part, sync, time, write, writeOrHide } from "./elements.js";
import * as format from "./format.js";
import { reveal, route, to } from "./route.js";
import { wordOf } from "./states.js";

const section = document.getElementById("verdict");
const first = document.getElementById("verdict-text");
const more = document.getElementById("verdict-more");
const announcer = document.getElementById("announcer");

// Prefixes of the document's title, the only visible part of a background tab.
const marks = { bad: "✕ ", warn: "! ", paused: "‖ " };

// showOverall shows a verdict: its title large, a line for each fault below.
export function showOverall({ level, title, lines }) {
  section.dataset.level = level;
  icon(section.firstElementChild, level);
  write(first, title);
  more.hidden = lines.length === 0;
  sync(more, lines.map((line, i) => ({ line, i })), { key: ({ i }) => String(i), create: createLine, fill: (row, { line }) => fillLine(row, line) });
  document.title = `${marks[level] ?? ""}ndrbridge`;
}

function createLine() {
  const row = make("fault-row");
  const link = part(row, "name");
  // The fragment may be the current one already, so that following it would do nothing.
  link.addEventListener("click", () => link.hash && reveal(route(link.hash).target));
  return row;
}

function fillLine(row, { level, target, name, cause, next, detail, section: title }) {
  row.dataset.level = level;
  icon(row.firstElementChild, level);
  const link = part(row, "name");
  write(link, name);
  const href = target ? to(...target) : null;
  if (link.getAttribute("href") !== href) {
    if (href) link.href = href;
    else link.removeAttribute("href");
  }
  write(part(row, "cause"), cause);
  part(row, "next-attempt").hidden = !next;
  if (next) time(part(row, "next"), next, format.until);
  writeOrHide(part(row, "detail"), detail);
  const book = part(row, "runbook");
  // The run book is plain text: the browser scrolls to the title of the section.
  const address = `page/runbook.md#:~:text=%23%23%23%20${encodeURIComponent(title)}`;
  if (book.getAttribute("href") !== address) book.setAttribute("href", address);
  label(book, `Run book about ${name}: ${cause}`);
}

// Announcements announces changes of state to screen readers, but not of numbers.
export class Announcements {
  #states = new Map(); // of sinks, by name
  #level = "";

  announce({ level, title, lines }, sinks) {
    const changes = [];
    if (level !== this.#level) changes.push([title, lines[0] && `${lines[0].name}: ${lines[0].cause}`].filter(Boolean).join(". "));
    this.#level = level;
    for (const { name, state } of sinks) {
      const before = this.#states.get(name);
      if (before !== undefined && before !== state) changes.push(`Sink ${name}: ${wordOf(state)}.`);
      this.#states.set(name, state);
    }
    if (changes.length > 0) write(announcer, changes.join(" "));
  }
}
