/** The figures of a job, with their names and formats. */

import { count, seconds } from "../format.js";

/** For each: the field of `GET /v1/jobs`, a name, a function that makes text of a number, and a hint. */
export const FIGURES = [
  { field: "events_in_per_second", name: "Events in", words: perSecond, hint: "over the last minute" },
  { field: "events_out_per_second", name: "Events out", words: perSecond, hint: "to tenants and other jobs" },
  { field: "batch_seconds_p50", name: "Batch, median", words: seconds, hint: "over the last minute" },
  { field: "batch_seconds_p99", name: "Batch, 99th percentile", words: seconds, hint: "over the last minute" },
  { field: "lag_events", name: "Events waiting", words: count, hint: "in its spools" },
  { field: "lag_seconds", name: "Longest wait", words: seconds, hint: "of an event in its spools" },
  { field: "latency_seconds_p50", name: "Latency, median", words: seconds, hint: "from an event to its output" },
  { field: "latency_seconds_p99", name: "Latency, 99th percentile", words: seconds, hint: "from an event to its output" },
];

/** The figures of a job's answer, by field. */
export function figuresOf(job) {
  return Object.fromEntries(FIGURES.map(({ field }) => [field, job[field]]));
}

/** Events per second. */
export function perSecond(number) {
  if (typeof number !== "number") {
    return "–";
  }
  return `${number >= 100 ? count(number) : Number(number.toPrecision(3))} /s`;
}
