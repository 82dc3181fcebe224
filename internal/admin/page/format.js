// Formats values for people. An unknown value is a dash.

const unknown = "–";
const known = (value) => value !== undefined && value !== null;

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const large = new Intl.NumberFormat(undefined, { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 3 });

// count formats a number: 12,345 or, from a million on, 1.23 million.
export const count = (n) => (known(n) ? (n >= 1e6 ? large : whole).format(n) : unknown);

// exact formats all digits of a number that count abbreviates; it returns "" for others.
export const exact = (n) => (known(n) && n >= 1e6 ? whole.format(n) : "");

// counted returns a number with a noun: "1 event", "2 events".
export const counted = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

// decimal formats a number with about three significant digits.
function decimal(n) {
  if (!known(n)) return unknown;
  if (n >= 100) return count(n);
  return n >= 10 ? tenths.format(n) : hundredths.format(n);
}

export const rate = (n) => (known(n) ? `${decimal(n)}/s` : unknown);

export function bytes(n) {
  if (!known(n)) return unknown;
  if (n < 1024) return `${whole.format(n)} B`;
  let value = n / 1024;
  let unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  return `${value >= 100 ? whole.format(value) : tenths.format(value)} ${["KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}

// duration formats a number of seconds in its largest unit, and up to 12 hours also in
// minutes.
export function duration(seconds) {
  if (!known(seconds)) return unknown;
  const s = Math.max(0, seconds);
  if (s < 0.95) return s < 0.05 ? "0 s" : `${tenths.format(s)} s`;
  if (s < 59.5) return `${whole.format(s)} s`;
  const minutes = Math.round(s / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 && hours < 12 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${whole.format(hours / 24)} days`;
}

// until formats the time from now to a moment: "in 5 s", or "now" if it is past.
export function until(rfc3339) {
  const seconds = (new Date(rfc3339) - Date.now()) / 1000;
  return seconds < 0.5 ? "now" : `in ${duration(Math.max(1, seconds))}`;
}

const timeOfDay = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const minute = new Intl.DateTimeFormat(undefined, timeOfDay);
const second = new Intl.DateTimeFormat(undefined, { ...timeOfDay, second: "2-digit" });
const zoned = new Intl.DateTimeFormat(undefined, { ...timeOfDay, timeZoneName: "short" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

// moment formats a time in the reader's time zone, with its day unless it is today.
function moment(at, time) {
  const now = new Date();
  if (at.toDateString() === now.toDateString()) return time.format(at);
  return `${(at.getFullYear() === now.getFullYear() ? day : dayOfYear).format(at)}, ${time.format(at)}`;
}

// toMinute names the time zone; toSecond and toAxis do not, since the page does (see zone).
export const toMinute = (rfc3339) => moment(new Date(rfc3339), zoned);

export const toSecond = (rfc3339) => moment(new Date(rfc3339), second);

export const toAxis = (milliseconds) => minute.format(new Date(milliseconds));

// inUTC formats a time in UTC: 2026-01-31 08:00:00 UTC.
export const inUTC = (rfc3339) => `${new Date(rfc3339).toISOString().slice(0, 19).replace("T", " ")} UTC`;

// zone returns the reader's time zone: "Europe/Berlin (UTC+01:00)".
export function zone() {
  const minutes = -new Date().getTimezoneOffset();
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  const offset = minutes === 0 ? "UTC" : `UTC${minutes < 0 ? "−" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
  const name = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  return !name || name === "UTC" ? offset : `${name} (${offset})`;
}
