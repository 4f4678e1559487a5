/** The operations on a dataflow, from the journal. */

import { api } from "../../api.js";
import { element, named, table } from "../../dom.js";
import { count, time } from "../../format.js";
import { refresh } from "../../refresh.js";

const MOST = 20;

/** The section on operations. */
export function operations({ id, signal }) {
  const place = element("div", {});
  let shown = "";

  async function look() {
    const { items, next } = await api.get("/v1/operations", { query: { subject: id, limit: MOST }, signal });
    const now = JSON.stringify(items);
    if (now !== shown) {
      shown = now;
      refresh(place, listed(items, next));
    }
  }

  return { update() {}, look, node: element("section", {}, element("h2", {}, "Operations"), place) };
}

function listed(items, next) {
  return table([
    { title: "When", cell: (each) => time(each.at) },
    { title: "What", cell: (each) => each.kind },
    { title: "By", cell: (each) => named(each.who) },
    { title: "Started", number: true, cell: (each) => count(each.started) },
    { title: "Reused", number: true, cell: (each) => count(each.reused) },
    { title: "Paused", number: true, cell: (each) => count(each.paused) },
  ], items, { caption: next ? `The newest ${MOST}; numbers are tasks` : "Newest first; numbers are tasks", empty: "No operations." });
}
