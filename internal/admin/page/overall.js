// The overall status at the top of the page, and announcements for screen readers.

import { icon, write } from "./elements.js";
import { reveal, route, to } from "./route.js";
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
  showLine(first, lines[0]);
  const others = lines.slice(1);
  more.hidden = others.length === 0;
  others.forEach((line, i) => showLine(more.children[i] ?? more.appendChild(document.createElement("li")), line));
  while (more.children.length > others.length) more.lastElementChild.remove();
  document.title = `${marks[level] ?? ""}ndrbridge`;
}

// showLine shows a line in an element, as a link to what it is about.
function showLine(element, { text, target }) {
  let link = element.firstElementChild;
  if (!target) {
    link?.remove();
    write(element, text);
    return;
  }
  if (!link) {
    link = document.createElement("a");
    // The fragment may be the current one already, so that following it would do nothing.
    link.addEventListener("click", () => reveal(route(link.hash).target));
    element.replaceChildren(link);
  }
  if (link.getAttribute("href") !== to(...target)) link.href = to(...target);
  write(link, text);
}

// Announcements announces changes of state to screen readers, but not of numbers.
export class Announcements {
  #states = new Map(); // of sinks, by name
  #level = "";

  announce({ level, lines }, sinks) {
    const changes = [];
    if (level !== this.#level) changes.push(lines[0].text);
    this.#level = level;
    for (const { name, state } of sinks) {
      const before = this.#states.get(name);
      if (before !== undefined && before !== state) changes.push(`Sink ${name}: ${wordOf(state)}.`);
      this.#states.set(name, state);
    }
    if (changes.length > 0) write(announcer, changes.join(" "));
  }
}
