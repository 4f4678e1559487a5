/** The section on machines that the service starts: their classes, what these cost, and the machines since lately. */

import { api } from "../../api.js";
import { element, table } from "../../dom.js";
import { time } from "../../format.js";
import { refresh } from "../../refresh.js";

/** The number of rentals that are shown, the newest. */
const MOST_RENTALS = 20;

/** The section on classes of machines; empty while none is set, and none was. */
export function classSection({ signal }) {
  const place = element("div", {});
  const node = element("section", { hidden: true }, element("h2", {}, "Classes of machines"), place);

  async function look() {
    const [classes, rentals] = await Promise.all([
      api.pages("/v1/machine-classes", { signal }), api.pages("/v1/rentals", { signal, most: MOST_RENTALS }),
    ]);
    node.hidden = classes.length + rentals.length === 0;
    refresh(place, classTable(classes), rentals.length === 0 ? null : rentalTable(rentals));
  }

  return { node, look };
}

function classTable(classes) {
  return table([
    { title: "Class", cell: (kind) => kind.name },
    { title: "Cores", number: true, cell: (kind) => String(kind.cores) },
    { title: "Speed", number: true, cell: (kind) => speed(kind.speed) },
    { title: "Price an hour", number: true, cell: (kind) => String(kind.price) },
    { title: "Start", number: true, cell: startOf },
    { title: "Offers", cell: (kind) => list([...kind.tags, ...(kind.image ? [`image ${kind.image}`] : [])]) },
    { title: "Least", number: true, cell: (kind) => String(kind.least) },
    { title: "Most", number: true, cell: (kind) => String(kind.most) },
    { title: "Started by", cell: (kind) => kind.command || "a process here" },
    { title: "Machines", cell: (kind) => list(kind.machines) },
  ], classes, { caption: `Classes: ${classes.length}` });
}

function rentalTable(rentals) {
  return table([
    { title: "Rented machine", cell: (rental) => rental.machine },
    { title: "Class", cell: (rental) => rental.machine_class },
    { title: "Ordered", cell: (rental) => time(rental.ordered) },
    { title: "Came", cell: (rental) => time(rental.ready) },
    { title: "Ended", cell: (rental) => time(rental.ended) },
    { title: "Speed", number: true, cell: (rental) => speed(rental.speed) },
    { title: "Hours", number: true, cell: (rental) => String(rental.hours) },
    { title: "Cost", number: true, cell: (rental) => String(rental.cost) },
    { title: "Why", cell: (rental) => rental.why || "–" },
  ], rentals, { caption: "Latest rented machines" });
}

function startOf(kind) {
  return `${Math.round(kind.start_seconds)} s${kind.measured ? "" : " (declared)"}`;
}

function speed(value) {
  return value === null ? "–" : value.toFixed(2);
}

function list(words) {
  return words.length === 0 ? "–" : words.join(", ");
}
