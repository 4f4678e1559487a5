/** The colours of tasks: by job, tenant, load, or the number of dataflows that share them; with a legend in words. */

import { cores, count } from "../format.js";

/** Distinguishable with most colour blindness. They repeat if there are more, which have names anyway. */
const PALETTE = [
  "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#7a8b00", "#5b6b7c", "#b2507a",
];
const OTHERS = "#8a8f98";
const SHARED = [
  { least: 16, colour: "#084c8d", words: "16 dataflows or more" },
  { least: 8, colour: "#2f7fc1", words: "8 to 15 dataflows" },
  { least: 4, colour: "#5fa8dc", words: "4 to 7 dataflows" },
  { least: 2, colour: "#93c47d", words: "2 or 3 dataflows" },
  { least: 0, colour: "#c9a227", words: "one dataflow" },
];
const LOADS = [
  { least: 0.5, colour: "#8c2d04", words: `${cores(0.5)} cores or more` },
  { least: 0.1, colour: "#d94801", words: `${cores(0.1)} cores or more` },
  { least: 0.02, colour: "#f16913", words: `${cores(0.02)} cores or more` },
  { least: 0, colour: "#fdae6b", words: "less" },
  { least: -Infinity, colour: OTHERS, words: "not known yet" },
];
const MOST_LISTED = 12;

/** The colourings, with their names; that by tenant is for operators. */
export const WAYS = { job: "by job", tenant: "by tenant", load: "by load", sharing: "by number of dataflows" };

/** The cores that tasks take together; null if nothing is known of any. */
export function loadOf(tasks) {
  const known = tasks.map((task) => task.cores).filter((each) => typeof each === "number");
  return known.length === 0 ? null : known.reduce((sum, each) => sum + each, 0);
}

/**
 * The colours of some jobs' tasks.
 * @returns {{of: function, ofJob: function, legend: Array<{colour: string, words: string}>}} `of` takes a task
 */
export function colouring(way, jobs) {
  return COLOURINGS[way](jobs);
}

const COLOURINGS = {
  job: function byJob(jobs) {
    return listed([...jobs.keys()], (task) => task.job, (job) => job, "job ");
  },
  tenant: function byTenant(jobs) {
    const tenants = new Set([...jobs.values()].flat().map((task) => task.tenant));
    const sorted = [...tenants].filter((tenant) => tenant !== "").sort();
    function ofJob(job) {
      const own = new Set(jobs.get(job).map((task) => task.tenant));
      return own.size === 1 ? [...own][0] : "";
    }
    const colours = listed(sorted, (task) => task.tenant, ofJob, "");
    return { ...colours, legend: [...colours.legend, { colour: OTHERS, words: "several tenants" }] };
  },
  load: function byLoad(jobs) {
    const ofJob = new Map([...jobs].map(([job, tasks]) => [job, binned(LOADS, loadOf(tasks) ?? -1)]));
    return { of: (task) => binned(LOADS, task.cores ?? -1), ofJob: (job) => ofJob.get(job), legend: LOADS };
  },
  sharing: function bySharing(jobs) {
    const most = new Map([...jobs].map(([job, tasks]) =>
      [job, binned(SHARED, tasks.reduce((number, task) => Math.max(number, task.dataflows), 0))]));
    return { of: (task) => binned(SHARED, task.dataflows), ofJob: (job) => most.get(job), legend: SHARED };
  },
};

/** A colour for each name; grey for what has none of them. */
function listed(names, nameOfTask, nameOfJob, noun) {
  const colours = new Map(names.map((name, place) => [name, PALETTE[place % PALETTE.length]]));
  const colourOf = (name) => colours.get(name) ?? OTHERS;
  const legend = names.slice(0, MOST_LISTED).map((name) => ({ colour: colourOf(name), words: `${noun}${name}` }));
  if (names.length > MOST_LISTED) {
    legend.push({ colour: "", words: `and ${count(names.length - MOST_LISTED)} more` });
  }
  return { of: (task) => colourOf(nameOfTask(task)), ofJob: (job) => colourOf(nameOfJob(job)), legend };
}

function binned(bins, number) {
  return bins.find((bin) => number >= bin.least).colour;
}
