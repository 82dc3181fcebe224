// How the parts of a bridge are doing, as a shape and a word.

import { icon, tell, write } from "./elements.js";

const states = {
  running: ["ok", "Running"],
  retrying: ["warn", "Retrying"],
  halted: ["bad", "Halted"],
  paused: ["held", "Paused"],
};

const other = ["unknown", "Not known yet"];

export const wordOf = (state) => (states[state] ?? other)[1];

// showState shows a state of the API in a .state, whose word stands in element. Words
// in place of its own can be given.
export const showState = (element, state, word) => showShape(element, (states[state] ?? other)[0], word ?? wordOf(state));

export function showShape(element, shape, word) {
  const line = element.closest(".state");
  line.dataset.level = shape;
  icon(line.firstElementChild, shape);
  write(element, word);
}

// showError shows why something is in a state; "": nothing is wrong.
export function showError(element, state, error) {
  element.className = state === "halted" ? "trouble" : "caution";
  tell(element, error);
}
