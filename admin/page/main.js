// The status page: asks the bridge how it is doing, again and again, and shows it.

import { hasToken, json, Problem } from "./api.js";
import { chartStreams, showAppliances } from "./appliances.js";
import { prepareDialogs } from "./dialogs.js";
import { time, write } from "./elements.js";
import { EventList } from "./events.js";
import * as format from "./format.js";
import { chartJournal, showJournal, showTickets } from "./journal.js";
import { Announcements, showOverall } from "./overall.js";
import { askToken, isAsked, onToken } from "./signin.js";
import { chartSinks, showSinks } from "./sinks.js";
import { verdict } from "./verdict.js";

// How often the status is asked for, in milliseconds: while the page is looked at,
// while it is not, and after a first failure and at most. The history has a new
// value every 15 s.
const interval = { shown: 2000, hidden: 60_000, failed: 1000, longest: 30_000, history: 15_000 };

const byId = (id) => document.getElementById(id);

const announcements = new Announcements();
const events = new EventList({
  list: byId("events"),
  empty: byId("no-events"),
  note: byId("events-note"),
  severity: byId("severity"),
  hold: byId("hold"),
});

let lastAnswer = null; // when the bridge last said how it is doing
let failures = 0; // since
let historyAt = 0; // when it was last asked for
let asked = 0;
let wake = () => {}; // ends the wait for the next question

const wait = (milliseconds) =>
  new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    wake = resolve;
  });

async function follow() {
  for (;;) {
    if (!isAsked()) await refresh();
    const usual = document.hidden ? interval.hidden : interval.shown;
    await wait(failures > 0 ? Math.min(interval.longest, interval.failed * 2 ** (failures - 1)) : usual);
  }
}

// refresh asks for the status and shows it. An answer that another overtook is passed
// over.
async function refresh() {
  const turn = ++asked;
  try {
    const status = await json("status");
    if (turn === asked) show(status);
  } catch (failure) {
    if (turn === asked) showFailure(failure);
  }
}

function show(status) {
  lastAnswer = new Date();
  failures = 0;
  delete document.body.dataset.stale;
  byId("bridge").hidden = false;
  byId("sign-out").hidden = !hasToken();
  write(byId("version"), status.version);
  byId("since-when").hidden = false;
  time(byId("since"), status.started, format.toMinute);
  showAppliances(byId("appliances"), status.appliances);
  showJournal(byId("journal"), status.state);
  showTickets(byId("tickets"), status);
  showSinks(byId("sinks"), status, refresh);
  const found = verdict(status);
  showOverall(found);
  announcements.tell(found, status.sinks);
  if (!document.hidden) showCourse();
}

// showCourse shows how it went, and goes: the charts, and the events.
async function showCourse() {
  events.follow();
  if (Date.now() - historyAt < interval.history) return;
  historyAt = Date.now();
  try {
    const history = await json("history");
    chartStreams(byId("appliances"), history);
    chartSinks(byId("sinks"), history);
    chartJournal(byId("journal"), history);
  } catch {
    // The next status says what is wrong, and the charts stay as they are.
  }
}

function showFailure(failure) {
  if (failure instanceof Problem && failure.status === 401) {
    askToken(`This token was refused: ${failure.message}`);
    return;
  }
  failures++;
  byId("bridge").hidden = false;
  document.body.dataset.stale = "";
  const why = failure instanceof Problem ? `The bridge cannot tell how it is doing: ${failure.message}.` : "The bridge does not answer.";
  const last = lastAnswer ? ` What is shown is of ${format.toSecond(lastAnswer)}.` : "";
  const found = { level: "bad", lines: [`${why}${last} It is asked again by itself.`] };
  showOverall(found);
  announcements.tell({ ...found, level: "gone" }, []);
}

prepareDialogs();
onToken(() => wake());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) events.stop();
  else wake();
});
window.addEventListener("online", () => wake());
follow();
