// Dialogs shared by other modules. <dialog> closes on Escape and restores the focus.

import { inWords } from "./api.js";
import { part, writeOrHide, write } from "./elements.js";
import { pretty } from "./pretty.js";

// Longer text is truncated to this many characters, because rendering it would block
// the browser.
const maxLength = 500_000;

// The number of times that the JSON dialog was opened. A response for an earlier time is
// ignored.
let opened = 0;

// openJSON shows JSON in a dialog. fetchText returns it.
export async function openJSON(title, fetchText) {
  const turn = ++opened;
  const dialog = document.getElementById("json");
  const pre = part(dialog, "json");
  write(part(dialog, "title"), title);
  write(pre, "…");
  writeOrHide(part(dialog, "error"), "");
  dialog.showModal();
  pre.scrollTo(0, 0);
  try {
    const text = pretty(await fetchText());
    if (turn !== opened) return;
    write(pre, text.length > maxLength ? `${text.slice(0, maxLength)}\n… (${text.length - maxLength} more characters)` : text);
  } catch (failure) {
    if (turn !== opened) return;
    write(pre, "");
    writeOrHide(part(dialog, "error"), inWords(failure));
  }
}

// confirm asks for confirmation and then calls act, which throws if it fails.
export function confirm({ title, text, yes, act }) {
  const dialog = document.getElementById("confirm");
  const button = part(dialog, "yes");
  write(part(dialog, "title"), title);
  write(part(dialog, "text"), text);
  write(button, yes);
  writeOrHide(part(dialog, "error"), "");
  button.onclick = async () => {
    if (button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true");
    try {
      await act();
      dialog.close();
    } catch (failure) {
      writeOrHide(part(dialog, "error"), `That failed: ${inWords(failure)}`);
    }
    button.removeAttribute("aria-busy");
  };
  dialog.showModal();
  part(dialog, "no").focus(); // an accidental Enter must not confirm
}

// prepareDialogs makes the close buttons and a click outside close the dialogs.
export function prepareDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    (part(dialog, "close") ?? part(dialog, "no")).addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog && dialog.id !== "confirm") dialog.close();
    });
  }
}
