/** The costs of a dataflow over the last hour. */

import { api } from "../../api.js";
import { element, replace } from "../../dom.js";
import { cores, price } from "../../format.js";
import { savedFigures } from "../../saved.js";

/** The seconds between two requests; usage is metered by the minute. */
const PACE = 30;

/** The section on costs. */
export function costs({ id, signal }) {
  const place = element("div", {});
  let looked = -Infinity;

  async function look() {
    if (performance.now() - looked < PACE * 1000) {
      return;
    }
    looked = performance.now();
    const report = await api.get("/v1/reports/savings", { query: { dataflow: id }, signal });
    replace(place, factsOf(report));
  }

  return { update() {}, look, node: element("section", {}, element("h2", {}, "Cost over the last hour"), place) };
}

function factsOf({ dataflows, currency }) {
  const [found] = dataflows;
  if (!found) {
    return element("p", { class: "empty" }, "Not metered yet; that takes a minute or two.");
  }
  const { share, alone, saved } = found;
  const facts = [
    ["Share", [`${cores(share.cores)} cores`, priced(share.price, currency)]],
    ["Run alone", [
      `about ${cores(alone.likely)} cores, between ${cores(alone.low)} and ${cores(alone.high)}`,
      priced(alone.price, currency),
    ]],
    ...savedFigures(saved).map(({ words, number, note, price: amount }) =>
      [words, [`${number} (${note})`, priced(amount, currency)]]),
  ];
  return element("dl", { class: "facts" }, facts.map(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]));
}

function priced(amount, currency) {
  return amount === null || amount === undefined ? null : `, ${price(amount, currency)}`;
}
