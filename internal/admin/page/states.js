// States, shown as a symbol and a word.

import { icon, writeOrHide, write } from "./elements.js";

const states = {
  running: ["ok", "Running"],
  retrying: ["warn", "Retrying"],
  halted: ["bad", "Halted"],
  stuck: ["bad", "Stuck"],
  paused: ["paused", "Paused"],
};

const other = ["unknown", "Not known yet"];

export const wordOf = (state) => (states[state] ?? other)[1];

// showState shows a state of the API in the .state that contains element, which gets the
// word, or the given one instead of the usual.
export const showState = (element, state, word) => showShape(element, (states[state] ?? other)[0], word ?? wordOf(state));

export function showShape(element, shape, word) {
  const line = element.closest(".state");
  line.dataset.level = shape;
  icon(line.firstElementChild, shape);
  write(element, word);
}

// showError shows the reason for a state, or hides the element if there is none.
export function showError(element, state, error) {
  element.className = state === "halted" ? "trouble" : "caution";
  writeOrHide(element, error);
}
