// The cards of the journal and of the ticket commands.

import { bar, chart } from "./charts.js";
import { make, number, part, sync, writeOrHide, write } from "./elements.js";
import * as format from "./format.js";
import { showError, showState } from "./states.js";

export function showJournal(card, state) {
  const j = state.journal;
  const limit = j.max_bytes > 0 ? `of ${format.bytes(j.max_bytes)}` : "without a limit";
  write(part(card, "bytes"), format.bytes(j.bytes));
  write(part(card, "limit"), limit);
  bar(part(card, "bar"), j.max_bytes > 0 ? j.bytes / j.max_bytes : 0, "The journal's size against its limit", `${format.bytes(j.bytes)} ${limit}`);
  writeOrHide(part(card, "full"), j.full ? "Full: the sources wait for space." : "");
  number(part(card, "events"), j.events);
  write(part(card, "file"), format.bytes(state.file_bytes));
  part(card, "file").title = state.path;
}

export function chartJournal(card, history) {
  chart(part(card, "chart"), { subject: "Journal", what: "Size", values: history.journal.bytes, step: history.step_seconds, until: history.until, format: format.bytes });
}

// showTickets shows the counts of ticket commands and the state of their intakes. It
// hides the card if tickets are not in use.
export function showTickets(card, status) {
  const { pending, done } = status.state.commands;
  const intakes = status.intakes ?? [];
  card.hidden = !(intakes.length > 0 || pending > 0 || done > 0 || status.appliances.some((a) => a.tickets));
  write(part(card, "pending"), format.count(pending));
  write(part(card, "done"), format.count(done));
  sync(part(card, "intakes"), intakes, { key: (i) => i.intake, create: () => make("intake-row"), fill: fillIntake });
}

function fillIntake(row, intake) {
  showState(part(row, "state"), intake.state, `From ${intake.intake}: ${intake.state}`);
  write(part(row, "counts"), `${format.counted(intake.stored, "message")} stored, ${format.count(intake.refused)} refused`);
  showError(part(row, "error"), intake.state, intake.error);
}
