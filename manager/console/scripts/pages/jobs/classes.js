/** The section on classes of machines: what the service may start, what that costs, and what there is of each. */

import { api } from "../../api.js";
import { element, table } from "../../dom.js";
import { refresh } from "../../refresh.js";

/** The section on classes of machines; empty while none is set. */
export function classSection({ signal }) {
  const place = element("div", {});
  const node = element("section", { hidden: true }, element("h2", {}, "Classes of machines"), place);

  async function look() {
    const classes = await api.pages("/v1/machine-classes", { signal });
    node.hidden = classes.length === 0;
    refresh(place, listed(classes));
  }

  return { node, look };
}

function listed(classes) {
  return table([
    { title: "Class", cell: (kind) => kind.name },
    { title: "Cores", number: true, cell: (kind) => String(kind.cores) },
    { title: "Speed", number: true, cell: (kind) => (kind.speed === null ? "–" : kind.speed.toFixed(2)) },
    { title: "Price an hour", number: true, cell: (kind) => String(kind.price) },
    { title: "Start", number: true, cell: (kind) => `${Math.round(kind.start_seconds)} s${kind.measured ? "" : " (declared)"}` },
    { title: "Offers", cell: (kind) => list([...kind.tags, ...(kind.image ? [`image ${kind.image}`] : [])]) },
    { title: "Least", number: true, cell: (kind) => String(kind.least) },
    { title: "Most", number: true, cell: (kind) => String(kind.most) },
    { title: "Started by", cell: (kind) => kind.command || "a process here" },
    { title: "Machines", cell: (kind) => list(kind.machines) },
  ], classes, { caption: `Classes: ${classes.length}` });
}

function list(words) {
  return words.length === 0 ? "–" : words.join(", ");
}
