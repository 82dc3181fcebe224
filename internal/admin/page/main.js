// The status page: polls the bridge's status and shows it.

import { hasToken, json, Problem } from "./api.js";
import { chartStreams, showAppliances } from "./appliances.js";
import { showCluster } from "./cluster.js";
import { showDetection } from "./detection.js";
import { prepareDialogs } from "./dialogs.js";
import { time, write } from "./elements.js";
import { EventList } from "./events.js";
import * as format from "./format.js";
import { chartJournal, showJournal, showTickets } from "./journal.js";
import { Announcements, showOverall } from "./overall.js";
import { reveal, route } from "./route.js";
import { signIn, isSigningIn, onToken } from "./signin.js";
import { chartSinks, showSinks } from "./sinks.js";
import { clusterProblems, verdict } from "./verdict.js";

// Intervals in milliseconds: of the status while the page is visible and hidden, the
// first and the longest delay after failures, and of the history, which gets a new
// sample every 15 s.
const interval = { shown: 2000, hidden: 60_000, firstRetry: 1000, longestRetry: 30_000, history: 15_000 };

const byId = (id) => document.getElementById(id);

const announcements = new Announcements();
const events = new EventList({
  list: byId("events"),
  empty: byId("no-events"),
  note: byId("events-note"),
  severity: byId("severity"),
  freeze: byId("freeze"),
});

let shown = null; // the fragment whose view is shown
let lastSuccess = null; // the time of the last status
let failures = 0; // since lastSuccess
let historyAt = 0; // when the history was last requested
let requests = 0; // the number of requests for the status
let wake = () => {}; // ends the wait for the next request

const wait = (milliseconds) =>
  new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    wake = resolve;
  });

async function follow() {
  for (;;) {
    if (!isSigningIn()) await refresh();
    const usual = document.hidden ? interval.hidden : interval.shown;
    await wait(failures > 0 ? Math.min(interval.longestRetry, interval.firstRetry * 2 ** (failures - 1)) : usual);
  }
}

// refresh fetches the status and shows it, unless a newer request was sent meanwhile.
async function refresh() {
  const request = ++requests;
  try {
    const status = await json("status");
    if (request === requests) show(status);
  } catch (failure) {
    // A member answers about the cluster even if no other one can answer about the bridge.
    const cluster = failure.status === 503 ? await json("cluster").catch(() => null) : null;
    if (request === requests) showFailure(failure, cluster);
  }
}

function show(status) {
  lastSuccess = new Date();
  failures = 0;
  delete document.body.dataset.stale;
  byId("sign-out").hidden = !hasToken();
  byId("read-only").hidden = !status.read_only;
  document.body.toggleAttribute("data-read-only", Boolean(status.read_only)); // hides what acts
  write(byId("version"), status.version);
  write(byId("zone"), `Times in ${format.zone()}`);
  byId("since-when").hidden = false;
  time(byId("since"), status.started, format.toMinute);
  byId("reloaded").hidden = !status.reload?.ok;
  if (status.reload?.ok) time(byId("reloaded-at"), status.reload.time, format.toMinute);
  showAppliances(byId("appliances"), status.appliances, refresh);
  showJournal(byId("journal"), status.state);
  showTickets(byId("tickets"), status);
  showCluster(byId("cluster"), status.cluster);
  byId("cluster").removeAttribute("data-fresh");
  showSinks(byId("sinks"), status, refresh);
  const found = verdict(status);
  showOverall(found);
  announcements.announce(found, status.sinks);
  showRoute();
  if (!document.hidden) showActivity();
}

// showRoute shows what the fragment of the address selects, unless it is shown already.
function showRoute() {
  if (isSigningIn() || location.hash === shown) return;
  const { detection, target } = route(location.hash);
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  byId("bridge").hidden = Boolean(detection);
  showDetection(detection ?? null);
  if (target && (lastSuccess || target.length === 0)) reveal(target);
  shown = location.hash;
}

// showActivity follows the events and updates the charts.
async function showActivity() {
  events.follow();
  if (Date.now() - historyAt < interval.history) return;
  historyAt = Date.now();
  try {
    const history = await json("history");
    chartStreams(byId("appliances"), history);
    chartSinks(byId("sinks"), history);
    chartJournal(byId("journal"), history);
  } catch {
    // The charts stay as they are. A lasting failure also shows in the next status.
  }
}

function showFailure(failure, cluster) {
  if (failure instanceof Problem && failure.status === 401) {
    signIn(`This token was rejected: ${failure.message}`);
    showDetection(null);
    shown = null;
    return;
  }
  failures++;
  if (shown === null) byId("bridge").hidden = false;
  document.body.dataset.stale = "";
  const why = failure instanceof Problem ? `The bridge cannot report its status: ${failure.message}.` : "The bridge does not answer.";
  const last = lastSuccess ? ` This page shows its status of ${format.toSecond(lastSuccess)}.` : "";
  if (cluster) showCluster(byId("cluster"), cluster);
  byId("cluster").toggleAttribute("data-fresh", Boolean(cluster));
  const found = { level: "bad", title: `${why}${last} Retrying automatically.`, lines: [...clusterProblems(cluster)] };
  showOverall(found);
  announcements.announce({ ...found, level: "gone" }, []);
}

prepareDialogs();
onToken(() => wake());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) events.stop();
  else wake();
});
window.addEventListener("hashchange", showRoute);
window.addEventListener("online", () => wake());
follow();
