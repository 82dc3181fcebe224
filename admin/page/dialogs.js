// The dialogs that others build on. Escape closes each of them, and the focus goes
// back to where it was: <dialog> sees to both.

import { inWords } from "./api.js";
import { part, tell, write } from "./elements.js";
import { pretty } from "./pretty.js";

// What is longer is shown up to here: no person reads on, and a browser would be
// busy with it for long.
const longest = 500_000;

// The last that was opened: an answer that comes later than the next is passed over.
let opened = 0;

// openInside shows JSON as text. ask returns it.
export async function openInside(title, ask) {
  const turn = ++opened;
  const dialog = document.getElementById("inside");
  const pre = part(dialog, "json");
  write(part(dialog, "title"), title);
  write(pre, "…");
  tell(part(dialog, "error"), "");
  dialog.showModal();
  pre.scrollTo(0, 0);
  try {
    const text = pretty(await ask());
    if (turn !== opened) return;
    write(pre, text.length > longest ? `${text.slice(0, longest)}\n… (${text.length - longest} characters more)` : text);
  } catch (failure) {
    if (turn !== opened) return;
    write(pre, "");
    tell(part(dialog, "error"), inWords(failure));
  }
}

// confirm asks before what cannot be undone, and has it done: act throws where it
// was not.
export function confirm({ title, text, yes, act }) {
  const dialog = document.getElementById("confirm");
  const button = part(dialog, "yes");
  write(part(dialog, "title"), title);
  write(part(dialog, "text"), text);
  write(button, yes);
  tell(part(dialog, "error"), "");
  button.onclick = async () => {
    if (button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true");
    try {
      await act();
      dialog.close();
    } catch (failure) {
      tell(part(dialog, "error"), `It was not done: ${inWords(failure)}`);
    }
    button.removeAttribute("aria-busy");
  };
  dialog.showModal();
  part(dialog, "no").focus(); // what is done by mistake must do nothing
}

// prepareDialogs lets the buttons close their dialogs, and a click beside one, too.
export function prepareDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    (part(dialog, "close") ?? part(dialog, "no")).addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog && dialog.id !== "confirm") dialog.close();
    });
  }
}
