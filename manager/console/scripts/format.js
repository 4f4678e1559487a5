/** Numbers, times and long names as text. A null or undefined value is unknown, and shown as a dash. */

const NONE = "–";
const LANGUAGE = "en-GB";
const WHOLE = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 0 });
const PERCENT = new Intl.NumberFormat(LANGUAGE, { style: "percent", maximumFractionDigits: 1 });
const TIME = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "medium" });
const HOUR = new Intl.DateTimeFormat(LANGUAGE, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const AGO = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: "auto" });
const SPANS = [["second", 60], ["minute", 60], ["hour", 24], ["day", 30], ["month", 12], ["year", Infinity]];
const LENGTHS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [0.001, "ms"], [0.000001, "µs"]];
const LEAST_CORES = 0.0005;

/** A whole number, such as 12,345. */
export function count(number) {
  return known(number) ? WHOLE.format(number) : NONE;
}

/** A count with its noun, in the plural unless it is one, such as "1 task" and "1,200 tasks". */
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** A number, to three digits. */
export function amount(number) {
  return known(number) ? digits(number) : NONE;
}

/** Cores, to three digits; 0 if they are too few to matter. */
export function cores(number) {
  if (!known(number)) {
    return NONE;
  }
  return Math.abs(number) < LEAST_CORES ? "0" : digits(number);
}

/** A duration, in a suitable unit. */
export function seconds(number) {
  if (!known(number)) {
    return NONE;
  }
  if (number === 0) {
    return "0 s";
  }
  const [one, unit] = LENGTHS.find(function fits([least]) {
    return Math.abs(number) >= least;
  }) ?? LENGTHS.at(-1);
  return `${digits(number / one)} ${unit}`;
}

/** A fraction, such as 0.5, as percent. */
export function percent(fraction) {
  return known(fraction) ? PERCENT.format(fraction) : NONE;
}

/** A price with its currency, which is any text from the settings; small prices to three digits. */
export function price(amount, currency = "") {
  if (!known(amount)) {
    return NONE;
  }
  const places = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  const text = Math.abs(amount) >= 1 || amount === 0
    ? new Intl.NumberFormat(LANGUAGE, places).format(amount)
    : digits(amount);
  return currency ? `${text} ${currency}` : text;
}

/** A time, from a date or a text of REST, in the reader's time zone. */
export function time(when) {
  const date = dated(when);
  return date ? TIME.format(date) : NONE;
}

/** A time in short, to the minute. */
export function hour(when) {
  const date = dated(when);
  return date ? HOUR.format(date) : NONE;
}

/** How long ago a time was, such as "5 minutes ago". */
export function ago(when, now = new Date()) {
  const date = dated(when);
  if (!date) {
    return NONE;
  }
  let number = (date - now) / 1000;
  for (const [unit, most] of SPANS) {
    if (Math.abs(Math.round(number)) < most) {
      return AGO.format(Math.round(number), unit);
    }
    number /= most;
  }
  return NONE;
}

/** A text of at most so many characters, the last of which is an ellipsis if there were more. */
export function shortened(text, most) {
  if (text.length <= most) {
    return text;
  }
  const characters = [...text];
  return characters.length > most ? `${characters.slice(0, Math.max(0, most - 1)).join("")}…` : text;
}

function known(number) {
  return typeof number === "number" && Number.isFinite(number);
}

function digits(number) {
  const options = Math.abs(number) >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
  // The bounds of an estimate may be slightly below zero.
  return new Intl.NumberFormat(LANGUAGE, { ...options, signDisplay: "negative" }).format(number);
}

function dated(when) {
  if (when === null || when === undefined || when === "") {
    return null;
  }
  const date = new Date(when);
  return Number.isNaN(date.getTime()) ? null : date;
}
