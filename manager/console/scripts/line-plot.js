/** Lines over time, with a band where bounds are known; readable by pointer and keys. Colours and dashes are the styles'. */

import uPlot from "../vendor/uplot.js";
import { element, replace, svg } from "./dom.js";
import { time } from "./format.js";

const USUAL_HEIGHT = 280;
const LEAST_WIDTH = 200;
const AXIS = { height: 28, width: 60, font: "12px system-ui, sans-serif", ticks: 90 };
const ROOM = 1.05;
const LONG = 36 * 3600;
const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

/** A key by which plots show the same moment. */
export function sharedCursor() {
  return uPlot.sync(crypto.randomUUID()).key;
}

/**
 * A plot that follows its width, until the signal is aborted.
 *
 * Each of `lines` is `{name, kind, hasBounds}`, where `kind` sets colour and dash. `format` makes text of a value, `unknown`
 * says what a gap is, and plots with the same `cursor` are read together.
 * @returns {{node, update}} `update(times, values)` takes dates, and for each line `{values, low, high}`: an unknown value
 *   is null and leaves a gap
 */
export function linePlot({ label, lines, format, unknown = "not known", height = USUAL_HEIGHT, cursor = null, signal }) {
  const keys = lines.map(({ kind }) => svg("path", { class: `chart-line ${kind}`, d: "M0,5H28" }));
  const readout = element("p", { class: "chart-readout" });
  const frame = element("div", {
    class: "chart", role: "img", tabindex: "0",
    "aria-label": `${label}. Use the arrow keys to read it; the data is in a table below.`,
    on: { keydown: byKey, blur: leave },
  });
  const node = element("figure", { class: "chart-figure" }, legend(lines, keys), frame, readout);
  let [plot, times, known] = [null, [], lines.map(() => ({ values: [] }))];

  function read() {
    const at = plot?.cursor.idx ?? null;
    replace(readout, at === null || at >= times.length
      ? "Point at the chart or use the arrow keys to read values."
      : `${time(times[at])}: ${lines.map((line, place) => `${line.name} ${valueText(known[place], at)}`).join("; ")}`);
  }

  function valueText({ values, low, high }, at) {
    if (!isKnown(values[at])) {
      return unknown;
    }
    return low ? `${format(values[at])} (${format(low[at])} to ${format(high[at])})` : format(values[at]);
  }

  function byKey(event) {
    const step = KEYS[event.key];
    if (step === undefined || times.length === 0 || plot === null) {
      return;
    }
    event.preventDefault();
    readout.setAttribute("aria-live", "polite");
    const from = plot.cursor.idx ?? (step < 0 ? times.length : -1);
    const at = Math.min(Math.max(from + step, 0), times.length - 1);
    // In all plots that share the cursor.
    plot.setCursor({ left: plot.valToPos(times[at] / 1000, "x"), top: 0 }, true, true);
  }

  function leave() {
    readout.removeAttribute("aria-live");
    plot?.setCursor({ left: -10, top: -10 }, true, true);
  }

  function data() {
    return [times.map((at) => at / 1000), ...known.flatMap(({ values, low, high }) => (low ? [values, low, high] : [values]))];
  }

  function update(newTimes, newValues) {
    [times, known] = [newTimes, newValues];
    plot?.setData(data());
    read();
  }

  const watcher = new ResizeObserver(function resized([entry]) {
    const width = Math.max(LEAST_WIDTH, Math.floor(entry.contentRect.width));
    if (plot === null) {
      // Only now do the keys have their styles.
      plot = new uPlot(options({ lines, keys, format, width, height, cursor, read }), data(), frame);
    } else if (width !== plot.width) {
      plot.setSize({ width, height });
    }
  });
  watcher.observe(frame);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot?.redraw(), { signal });
  signal.addEventListener("abort", function ended() {
    watcher.disconnect();
    plot?.destroy();
  });
  read();
  return { node, update };
}

function options({ lines, keys, format, width, height, cursor, read }) {
  const series = [{}];
  const bands = [];
  for (const [place, { hasBounds }] of lines.entries()) {
    const stroke = () => getComputedStyle(keys[place]).stroke;
    series.push({ stroke, width: 2, dash: dashOf(keys[place]), points: { show: false, filter: singles, size: 6, fill: stroke } });
    if (hasBounds) {
      bands.push({ series: [series.length + 1, series.length], fill: () => stroke().replace(/^rgb\((.*)\)$/, "rgba($1, 0.18)") });
      // Low and high, of which nothing but what is between them is seen.
      series.push(...[0, 1].map(() => ({ width: 0, stroke: "transparent", points: { show: false } })));
    }
  }
  const axis = { stroke: () => token("--faint"), font: AXIS.font, grid: { stroke: () => token("--line"), width: 1 }, ticks: { show: false } };
  return {
    width, height, series, bands,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: isSeen }, ...(cursor ? { sync: { key: cursor } } : {}) },
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, most > 0 ? most * ROOM : 1] } },
    axes: [
      { ...axis, size: AXIS.height, space: AXIS.ticks, values: (_, marks) => marks.map(moments(marks)) },
      { ...axis, size: AXIS.width, values: (_, marks) => marks.map(format) },
    ],
    hooks: { setCursor: [read] },
  };
}

/** Bounds have no point of their own where the cursor is. */
function isSeen(plot, place) {
  const { stroke } = plot.series[place];
  return stroke(plot, place) === "transparent" ? false : element("div", { class: "u-cursor-pt" });
}

/** The places of values between two gaps, which are no line. */
function singles(plot, place) {
  const values = plot.data[place];
  return [...values.keys()].filter((at) => isKnown(values[at]) && !isKnown(values[at - 1]) && !isKnown(values[at + 1]));
}

function dashOf(key) {
  return getComputedStyle(key).strokeDasharray.split(",").map(parseFloat).filter(Number.isFinite);
}

/** What makes text of a time: the day as well, if they are far from each other. */
function moments(marks) {
  const isLong = marks.at(-1) - marks[0] > LONG;
  const words = new Intl.DateTimeFormat("en-GB", isLong ? { day: "numeric", month: "short" } : { hour: "2-digit", minute: "2-digit" });
  return (mark) => words.format(mark * 1000);
}

function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function legend(lines, keys) {
  return element("figcaption", { class: "legend" }, lines.map(({ name, hasBounds }, place) => element("span", {},
    svg("svg", { class: "chart-key", viewBox: "0 0 28 10", width: 28, height: 10, "aria-hidden": "true" }, keys[place]),
    name, hasBounds ? " (with bounds)" : "")));
}

function isKnown(value) {
  return value !== null && value !== undefined;
}
