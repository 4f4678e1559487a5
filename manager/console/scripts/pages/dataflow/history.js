/** The history of a dataflow: events, latency, what waits, dead letters and cores over time. */

import { api } from "../../api.js";
import { element, field, replace, table } from "../../dom.js";
import { amount, cores, seconds, time } from "../../format.js";
import { linePlot, sharedCursor } from "../../line-plot.js";

const RANGES = { "15m": "Last 15 minutes", "1h": "Last hour", "6h": "Last 6 hours", "1d": "Last 24 hours", "7d": "Last 7 days" };
const HEIGHT = 160;
/** The seconds between two requests; the shortest step takes as long. */
const PACE = 15;
const CHARTS = [
  { title: "Events per second", format: amount, lines: [
    { name: "in", kind: "main", of: "events_in_per_second" }, { name: "out", kind: "other", of: "events_out_per_second" },
  ] },
  { title: "Latency", format: seconds, lines: [
    { name: "median", kind: "main", of: "latency_seconds_p50" },
    { name: "99th percentile", kind: "other", of: "latency_seconds_p99" },
  ] },
  { title: "Waiting events", format: amount, lines: [{ name: "waiting", kind: "main", of: "waiting" }] },
  { title: "New dead letters", format: amount, lines: [{ name: "dead letters", kind: "bad", of: "dead_letters" }] },
  { title: "Cores", format: cores, lines: [
    { name: "share", kind: "main", of: "cores" }, { name: "without sharing", kind: "other", of: "cores_alone" },
  ] },
];
const BOUND = { name: "allowed by its policy", kind: "bound", of: "bound" };

/** The section on its history. */
export function history({ path, signal, say }) {
  const chosen = element("select", { on: { change: changed } },
    Object.entries(RANGES).map(([value, words]) => element("option", { value }, words)));
  chosen.value = "1h";
  const charts = element("div", { class: "history" });
  const numbers = element("div", {});
  const data = element("details", { on: { toggle: tabulate } }, element("summary", {}, "History as a table"), numbers);
  let [looked, answer, drawn] = [-Infinity, null, []];
  let hasBound = null;

  async function look() {
    if (performance.now() - looked < PACE * 1000) {
      return;
    }
    looked = performance.now();
    const range = chosen.value;
    const found = await api.get(`${path}/series`, { query: { range }, signal });
    if (range !== chosen.value) {
      // Another one was chosen in the meantime.
      return;
    }
    answer = found;
    draw();
    tabulate();
  }

  async function changed() {
    looked = -Infinity;
    await look().then(() => say(`History of the ${RANGES[chosen.value].toLowerCase()}.`), () => (looked = -Infinity));
  }

  function draw() {
    if (hasBound !== (answer.latency_bound !== null)) {
      hasBound = answer.latency_bound !== null;
      const cursor = sharedCursor();
      drawn = CHARTS.map(function made({ title, format, lines: usual }) {
        const lines = title === "Latency" && hasBound ? [...usual, BOUND] : usual;
        return { lines, plot: linePlot({ label: title, lines, format, height: HEIGHT, cursor, signal }), title };
      });
      replace(charts, drawn.map(({ title, plot }) => element("section", {}, element("h3", {}, title), plot.node)));
    }
    const [times, series] = [timesOf(answer), { ...answer, bound: timesOf(answer).fill(answer.latency_bound) }];
    for (const { lines, plot } of drawn) {
      plot.update(times, lines.map((line) => ({ values: series[line.of] })));
    }
  }

  function tabulate() {
    if (!data.open || answer === null) {
      return;
    }
    const columns = CHARTS.flatMap(({ title, format, lines }) => lines.map(({ name, of }) => ({
      title: lines.length > 1 ? `${title}, ${name}` : title, number: true, cell: (at) => format(answer[of][at]),
    })));
    const times = timesOf(answer);
    replace(numbers, table([{ title: "From", cell: (at) => time(times[at]) }, ...columns], [...times.keys()].reverse(),
      { caption: `History in steps of ${seconds(answer.step)}, newest first` }));
  }

  return {
    update() {},
    look,
    node: element("section", {}, element("h2", {}, "History"),
      element("div", { class: "toolbar" }, field("Range", chosen)), charts, data),
  };
}

/** The beginning of each step. */
function timesOf({ since, step, waiting }) {
  return waiting.map((_, place) => new Date(Date.parse(since) + place * step * 1000));
}
