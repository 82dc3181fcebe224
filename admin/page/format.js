// Formats values for people. An unknown value is a dash.

const unknown = "–";
const known = (value) => value !== undefined && value !== null;

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });

export const count = (n) => (known(n) ? whole.format(n) : unknown);

// counted returns a number with a noun: "1 event", "2 events".
export const counted = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;

// decimal formats a number with about three significant digits.
function decimal(n) {
  if (!known(n)) return unknown;
  if (n >= 100) return whole.format(n);
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

const timeOfDay = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const minute = new Intl.DateTimeFormat(undefined, timeOfDay);
const second = new Intl.DateTimeFormat(undefined, { ...timeOfDay, second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

// moment formats a time in the reader's time zone, with its day unless it is today.
function moment(at, time) {
  const now = new Date();
  if (at.toDateString() === now.toDateString()) return time.format(at);
  return `${(at.getFullYear() === now.getFullYear() ? day : dayOfYear).format(at)}, ${time.format(at)}`;
}

export const toMinute = (rfc3339) => moment(new Date(rfc3339), minute);

export const toSecond = (rfc3339) => moment(new Date(rfc3339), second);
