/** What is known of a task, in words: rates, load, errors, state and sharing. */

import { cores, count, counted } from "../../format.js";
import { perSecond } from "../../graph/figures.js";

const LEAST_CPU = 0.001;
const SIZES = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];

/** The rates in and out, such as "43.2 → 41.8 /s"; a source has only one out, and an output only one in. */
export function ratesOf({ events_in_per_second: into, events_out_per_second: out }, type) {
  if (type === "source") {
    return perSecond(out);
  }
  return type === "output" ? perSecond(into) : `${perSecond(into).replace(" /s", "")} → ${perSecond(out)}`;
}

/** The CPU that a task takes; little is not nothing. */
export function cpuOf(taken) {
  return taken > 0 && cores(taken) === "0" ? `under ${LEAST_CPU}` : cores(taken);
}

/** The load: cores and waiting events, as far as they are known. */
export function loadOf({ cores: taken, lag_events: waiting }) {
  return [
    typeof taken === "number" ? `${cpuOf(taken)} cores` : "",
    typeof waiting === "number" ? `${count(waiting)} waiting` : "",
  ].filter(Boolean).join(" · ");
}

/** What is special about a task: that it is not well, its errors, and who shares it. */
export function remarksOf(figures) {
  return [
    figures.state === "running" ? "" : figures.state,
    figures.events_dead > 0 ? counted(figures.events_dead, "error") : "",
    sharedWith(figures),
  ].filter(Boolean).join(" · ");
}

/** How many others share a task, such as "shared with 3 others"; empty if nobody does. */
export function sharedWith({ others }) {
  return others > 0 ? `shared with ${counted(others, "other")}` : "";
}

/** The size of a state; small ones are reported as 0 bytes. */
export function sizeOf(bytes) {
  if (typeof bytes !== "number") {
    return "–";
  }
  const [one, unit] = SIZES.find(([least]) => bytes >= least) ?? [];
  return unit === undefined ? "less than 10 kB" : `${Number((bytes / one).toPrecision(3))} ${unit}`;
}

/** The type of a task of a document; of a source the source that it reads. */
export function kindOf({ type, config }) {
  return type === "source" && typeof config?.source === "string" ? config.source : type;
}
