/** A chart of lines over time, with a band where bounds are known; readable by pointer, keys and table. */

import { element, replace, svg } from "./dom.js";
import { time } from "./format.js";

const HEIGHT = 280;
const EDGE = { top: 12, right: 12, bottom: 28, left: 52 };
const USUAL_WIDTH = 720;
const LEAST_WIDTH = 280;
const TICKS = 5;
const TICK_ROOM = 110;
const STEPS = [1, 2, 5, 10];
const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

/**
 * A chart that is drawn again when its width changes, until the signal is aborted.
 *
 * `times` are dates; each of `lines` is `{name, kind, values, low, high}`: an unknown value is null and leaves a gap, `kind`
 * sets colour and dash, and `low` and `high` are optional. `format` makes text of a value.
 */
export function chart({ label, times, lines, format, signal }) {
  const readout = element("p", { class: "chart-readout" });
  const frame = element("div", { class: "chart-frame" });
  const state = { at: null, width: USUAL_WIDTH };

  function draw() {
    const scales = scaled(times, lines, state.width);
    const picture = svg("svg", {
      class: "chart", viewBox: `0 0 ${state.width} ${HEIGHT}`, width: state.width, height: HEIGHT, role: "img",
      tabindex: "0", "aria-label": `${label}. Use the arrow keys to read it; the data is in the table below.`,
      on: { keydown: byKey, pointermove: byPointer, pointerleave: leave },
    },
    grid(scales, format), axis(scales, times, state.width),
    lines.filter((line) => line.low).map((line) => band(line, scales)),
    lines.map((line) => svg("path", { class: `chart-line ${line.kind}`, d: path(line.values, scales) })),
    lines.map((line) => single(line, scales)),
    state.at === null ? null : cursor(state.at, lines, scales));
    const focused = frame.contains(document.activeElement);
    replace(frame, picture);
    if (focused) {
      picture.focus({ preventScroll: true });
    }
    replace(readout, state.at === null ? "Point at the chart or use the arrow keys to read values." : reading(state.at));
  }

  function reading(at) {
    const known = lines.map((line) => `${line.name} ${valueText(line, at)}`).join("; ");
    return `${time(times[at])}: ${known}`;
  }

  function valueText(line, at) {
    if (!isKnown(line.values[at])) {
      return "not metered";
    }
    const bounds = line.low ? ` (${format(line.low[at])} to ${format(line.high[at])})` : "";
    return `${format(line.values[at])}${bounds}`;
  }

  function byKey(event) {
    const step = KEYS[event.key];
    if (step !== undefined && times.length > 0) {
      event.preventDefault();
      readout.setAttribute("aria-live", "polite");
      const from = state.at ?? (step < 0 ? times.length : -1);
      read(Math.min(Math.max(from + step, 0), times.length - 1));
    }
  }

  function byPointer(event) {
    const place = event.currentTarget.getBoundingClientRect();
    const x = ((event.clientX - place.left) / place.width) * state.width;
    readout.removeAttribute("aria-live");
    read(nearest(x, scaled(times, lines, state.width), times));
  }

  function read(at) {
    if (at !== null && at !== state.at) {
      state.at = at;
      draw();
    }
  }

  function leave() {
    state.at = null;
    draw();
  }

  const watcher = new ResizeObserver(function resized([entry]) {
    const width = Math.max(LEAST_WIDTH, Math.round(entry.contentRect.width));
    if (width !== state.width) {
      state.width = width;
      draw();
    }
  });
  watcher.observe(frame);
  signal.addEventListener("abort", () => watcher.disconnect());
  draw();
  return element("figure", { class: "chart-figure" }, legend(lines), frame, readout);
}

/** The grid lines of an axis from 0 to `most`: evenly spaced, at least one above 0, the last at or above `most`. */
export function ticks(most) {
  const rough = (most > 0 ? most : 1) / TICKS;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * STEPS.find((each) => each * unit >= rough * (1 - 1e-9));
  const count = Math.ceil((most > 0 ? most : 1) / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, number) => number * step);
}

function scaled(times, lines, width) {
  const values = lines.flatMap((line) => [...line.values, ...(line.high ?? [])]).filter(isKnown);
  const marks = ticks(Math.max(0, ...values));
  const [first, last] = [Number(times[0] ?? 0), Number(times.at(-1) ?? 0)];
  const inner = { width: width - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  return {
    marks,
    right: width - EDGE.right,
    x: (at) => EDGE.left + (last > first ? (Number(times[at]) - first) / (last - first) : 0.5) * inner.width,
    y: (value) => EDGE.top + (1 - value / marks.at(-1)) * inner.height,
  };
}

function grid({ marks, right, y }, format) {
  return marks.map((mark) => [
    svg("line", { class: "chart-grid", x1: EDGE.left, x2: right, y1: y(mark), y2: y(mark) }),
    svg("text", { class: "chart-text", x: EDGE.left - 6, y: y(mark) + 4, "text-anchor": "end" }, format(mark)),
  ]);
}

function axis({ x }, times, width) {
  const count = Math.max(1, Math.min(times.length, Math.floor((width - EDGE.left - EDGE.right) / TICK_ROOM)));
  const isLong = times.length > 1 && times.at(-1) - times[0] > 36 * 3600 * 1000;
  const options = isLong ? { day: "numeric", month: "short" } : { hour: "2-digit", minute: "2-digit" };
  const words = new Intl.DateTimeFormat("en-GB", options);
  return Array.from({ length: times.length > 0 ? count : 0 }, function tick(_, number) {
    const at = count > 1 ? Math.round((number * (times.length - 1)) / (count - 1)) : 0;
    const anchor = count === 1 ? "middle" : number === 0 ? "start" : number === count - 1 ? "end" : "middle";
    return svg("text", { class: "chart-text", x: x(at), y: HEIGHT - 8, "text-anchor": anchor }, words.format(times[at]));
  });
}

/** The path of a line, begun anew after each gap. */
function path(values, { x, y }) {
  return stretches(values).map((stretch) => `M${stretch.map((at) => `${x(at)},${y(values[at])}`).join("L")}`).join("");
}

function band({ kind, low, high }, { x, y }) {
  const around = stretches(low).map(function closed(stretch) {
    const back = stretch.toReversed().map((at) => `${x(at)},${y(low[at])}`);
    return `M${[...stretch.map((at) => `${x(at)},${y(high[at])}`), ...back].join("L")}Z`;
  });
  return svg("path", { class: `chart-band ${kind}`, d: around.join("") });
}

/** A point for each value between two gaps, which is no line. */
function single({ kind, values }, { x, y }) {
  return stretches(values).filter((stretch) => stretch.length === 1).map(
    ([at]) => svg("circle", { class: `chart-point ${kind}`, cx: x(at), cy: y(values[at]), r: 3 }));
}

function cursor(at, lines, { x, y, marks }) {
  return [
    svg("line", { class: "chart-cursor", x1: x(at), x2: x(at), y1: y(0), y2: y(marks.at(-1)) }),
    lines.filter((line) => isKnown(line.values[at])).map(
      (line) => svg("circle", { class: `chart-point ${line.kind}`, cx: x(at), cy: y(line.values[at]), r: 4 })),
  ];
}

function stretches(values) {
  const found = [];
  for (const [at, value] of values.entries()) {
    if (isKnown(value)) {
      if (at > 0 && isKnown(values[at - 1])) {
        found.at(-1).push(at);
      } else {
        found.push([at]);
      }
    }
  }
  return found;
}

function nearest(place, { x }, times) {
  let found = null;
  for (const at of times.keys()) {
    if (found === null || Math.abs(x(at) - place) < Math.abs(x(found) - place)) {
      found = at;
    }
  }
  return found;
}

function legend(lines) {
  return element("figcaption", { class: "legend" }, lines.map((line) => element("span", {},
    svg("svg", { class: "chart-key", viewBox: "0 0 28 10", width: 28, height: 10, "aria-hidden": "true" },
      svg("path", { class: `chart-line ${line.kind}`, d: "M0,5H28" })),
    line.name, line.low ? " (with bounds)" : "")));
}

function isKnown(value) {
  return value !== null && value !== undefined;
}
