/** Bars: parts of a whole, side by side, with a legend in words. */

import { element, svg } from "../../dom.js";

/**
 * A bar of parts `{look, words, number}`; `label` says what the whole is. Parts of nothing are left out.
 *
 * A look is that of a state: good, warn, bad, faint, or accent.
 */
export function bar(label, parts) {
  const shown = parts.filter((part) => part.number > 0);
  const whole = shown.reduce((sum, part) => sum + part.number, 0);
  let before = 0;
  const pieces = shown.map(function piece(part) {
    const [x, width] = [before / whole, part.number / whole].map((fraction) => `${(100 * fraction).toFixed(2)}%`);
    before += part.number;
    return svg("rect", { class: `bar-part ${part.look}`, x, y: 0, width, height: "100%" }, svg("title", {}, part.words));
  });
  return whole === 0 ? null : element("div", { class: "bar" },
    svg("svg", {
      class: "bar-parts", role: "img", "aria-label": `${label}: ${shown.map((part) => part.words).join(", ")}`,
    }, pieces),
    element("ul", { class: "legend" }, shown.map(function keyed(part) {
      const swatch = svg("svg", { class: "bar-key", "aria-hidden": "true" },
        svg("rect", { class: `bar-part ${part.look}`, width: "100%", height: "100%" }));
      return element("li", { dataset: { look: part.look } }, swatch, part.words);
    })));
}
