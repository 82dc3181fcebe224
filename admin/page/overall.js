// The overall status at the top of the page, and announcements for screen readers.

import { icon, write } from "./elements.js";
import { wordOf } from "./states.js";

const section = document.getElementById("verdict");
const first = document.getElementById("verdict-text");
const more = document.getElementById("verdict-more");
const announcer = document.getElementById("announcer");

// Prefixes of the document's title, the only visible part of a background tab.
const marks = { bad: "✕ ", warn: "! ", paused: "‖ " };

// showOverall shows a verdict: its first line large, the others below.
export function showOverall({ level, lines }) {
  section.dataset.level = level;
  icon(section.firstElementChild, level);
  write(first, lines[0]);
  const others = lines.slice(1);
  more.hidden = others.length === 0;
  others.forEach((line, i) => write(more.children[i] ?? more.appendChild(document.createElement("li")), line));
  while (more.children.length > others.length) more.lastElementChild.remove();
  document.title = `${marks[level] ?? ""}ndrbridge`;
}

// Announcements announces changes of state to screen readers, but not of numbers.
export class Announcements {
  #states = new Map(); // of sinks, by name
  #level = "";

  announce({ level, lines }, sinks) {
    const changes = [];
    if (level !== this.#level) changes.push(lines[0]);
    this.#level = level;
    for (const { name, state } of sinks) {
      const before = this.#states.get(name);
      if (before !== undefined && before !== state) changes.push(`Sink ${name}: ${wordOf(state)}.`);
      this.#states.set(name, state);
    }
    if (changes.length > 0) write(announcer, changes.join(" "));
  }
}
