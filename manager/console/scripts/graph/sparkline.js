/** Sparklines: small charts of the latest samples of a number. */

import { svg } from "../dom.js";

const WIDTH = 160;
const HEIGHT = 36;
const MARGIN = 2;
const VIEW = `0 0 ${WIDTH} ${HEIGHT}`;
/** The number of samples that are kept. */
const MOST = 120;

/** The latest samples of some numbers, by name. */
export class History {
  #series = new Map();

  /** Add a sample of each number; null if it is unknown. */
  note(numbers) {
    for (const [name, number] of Object.entries(numbers)) {
      const series = this.#series.get(name) ?? [];
      series.push(number ?? null);
      this.#series.set(name, series.slice(-MOST));
    }
  }

  /** The samples of a number, oldest first. */
  of(name) {
    return this.#series.get(name) ?? [];
  }
}

/** A line through numbers, from 0 up, with gaps for unknown ones. `words` makes text of a number. */
export function sparkline(numbers, words) {
  const known = numbers.filter((number) => number !== null);
  if (known.length === 0) {
    return svg("svg", { class: "sparkline", viewBox: VIEW, role: "img", "aria-label": "no data yet" });
  }
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const label = `last ${numbers.length} samples: ${words(least)} to ${words(most)}, now ${words(numbers.at(-1))}`;
  return svg("svg", { class: "sparkline", viewBox: VIEW, role: "img", "aria-label": label },
    svg("title", {}, label),
    svg("path", { class: "sparkline-path", d: pathOf(numbers, most), fill: "none" }));
}

function pathOf(numbers, most) {
  const across = (WIDTH - 2 * MARGIN) / Math.max(1, numbers.length - 1);
  const up = (HEIGHT - 2 * MARGIN) / (most || 1);
  let path = "";
  numbers.forEach(function draw(number, place) {
    if (number !== null) {
      const [x, y] = [MARGIN + place * across, HEIGHT - MARGIN - number * up];
      const begins = place === 0 || numbers[place - 1] === null;
      // A single point is a short line, or it would be invisible.
      path += `${begins ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}${begins ? "h1" : ""}`;
    }
  });
  return path;
}
