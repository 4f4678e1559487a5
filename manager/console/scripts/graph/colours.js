/** The colours of tasks: by job, or by the number of dataflows that share them; with a legend in words. */

import { count } from "../format.js";

/** Distinguishable with most colour blindness. They repeat if there are more jobs, whose boxes have names anyway. */
const JOBS = [
  "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#7a8b00", "#5b6b7c", "#b2507a",
];
const SHARED = [
  { least: 16, colour: "#084c8d", words: "16 dataflows or more" },
  { least: 8, colour: "#2f7fc1", words: "8 to 15 dataflows" },
  { least: 4, colour: "#5fa8dc", words: "4 to 7 dataflows" },
  { least: 2, colour: "#93c47d", words: "2 or 3 dataflows" },
  { least: 0, colour: "#c9a227", words: "one dataflow" },
];
const MOST_LISTED = 12;

/** The colourings, with their names. */
export const WAYS = { job: "by job", sharing: "by number of dataflows" };

/**
 * The colours of some jobs' tasks.
 * @returns {{of: function, ofJob: function, legend: Array<{colour: string, words: string}>}} `of` takes a task
 */
export function colouring(way, jobs) {
  const names = [...jobs.keys()];
  const byJob = new Map(names.map((job, place) => [job, JOBS[place % JOBS.length]]));
  function ofJob(job) {
    return byJob.get(job);
  }
  if (way === "sharing") {
    const most = new Map([...jobs].map(([job, tasks]) => [job, shared(mostShared(tasks))]));
    const legend = SHARED.map(({ colour, words }) => ({ colour, words }));
    return { of: (task) => shared(task.dataflows), ofJob: (job) => most.get(job), legend };
  }
  const legend = names.slice(0, MOST_LISTED).map((job) => ({ colour: ofJob(job), words: `job ${job}` }));
  if (names.length > MOST_LISTED) {
    legend.push({ colour: "", words: `and ${count(names.length - MOST_LISTED)} more, named on their boxes` });
  }
  return { of: (task) => ofJob(task.job), ofJob, legend };
}

function shared(dataflows) {
  return SHARED.find((each) => dataflows >= each.least).colour;
}

function mostShared(tasks) {
  return tasks.reduce((most, task) => Math.max(most, task.dataflows), 0);
}
