/** Bills: the costs of each tenant and dataflow in a month, or in a custom period. */

import { api } from "../api.js";
import { element, field, named, replace, table } from "../dom.js";
import { seconds, time } from "../format.js";
import { refresh } from "../refresh.js";
import { every } from "../live-updates.js";
import { guarded, ownBounds, remember, selectTenant } from "../reports.js";

const PATH = "/v1/reports/bills";
const MONTHS = 12;
const PACE = 60;
const MONTH = /^\d{4}-\d{2}$/;

export const title = "Bills";

/** Show the page. */
export async function show(main, { parameters, session, signal, say }) {
  const isOperator = session.kind === "operator";
  const months = lastMonths(new Date());
  if (MONTH.test(parameters.period ?? "") && !months.includes(parameters.period)) {
    months.push(parameters.period);
  }
  const chosen = element("select", {},
    months.map((month) => element("option", { value: month }, monthName(month))),
    element("option", { value: "own" }, "Custom"));
  chosen.value = parameters.period === "own" || months.includes(parameters.period) ? parameters.period : months[0];
  const [from, to] = ["from", "to"].map((name) => element("input", { type: "date", value: parameters[name] }));
  const bounds = [field("From", from), field("Until (exclusive)", to)];
  const own = ownBounds(chosen, from, to, bounds);
  const tenant = isOperator ? await selectTenant(parameters.tenant, signal) : null;
  const file = element("a", { class: "button", download: true }, "Download as CSV");
  const [summary, tenants, dataflows] = [0, 1, 2].map(() => element("div", {}));
  let looked = 0;

  async function look() {
    looked += 1;
    const turn = looked;
    const query = asked();
    const bill = await api.get(PATH, { query, signal });
    if (turn !== looked) {
      // Another period was chosen in the meantime.
      return false;
    }
    refresh(summary, summaryOf(bill));
    refresh(tenants, isOperator ? tenantTable(bill) : null);
    refresh(dataflows, dataflowTable(bill, isOperator));
    return true;
  }

  function asked() {
    const [begin, end] = chosen.value === "own" ? [from.value, to.value] : boundsOf(chosen.value);
    return { from: `${begin}T00:00:00Z`, to: `${end}T00:00:00Z`, ...(tenant?.value ? { tenant: tenant.value } : {}) };
  }

  async function changed() {
    prepare();
    remember("#/bills", { period: chosen.value, from: from.value, to: to.value, tenant: tenant?.value });
    if (own.isWhole() && await look()) {
      say("Bill updated.");
    }
  }

  function prepare() {
    own.showFields();
    file.hidden = !own.isWhole();
    if (own.isWhole()) {
      file.href = `${PATH}?${new URLSearchParams({ ...asked(), format: "csv" })}`;
    }
  }

  for (const each of [chosen, from, to, tenant].filter(Boolean)) {
    each.addEventListener("change", () => guarded(changed, main, signal));
  }
  prepare();
  replace(main, element("h1", {}, title),
    element("div", { class: "toolbar" },
      field("Period", chosen), bounds, tenant ? field("Tenant", tenant) : null, file),
    summary, tenants, dataflows,
    element("p", { class: "faint" },
      "Periods are in UTC. In each minute no dataflow pays more than it would cost alone. The difference, ",
      "and what no dataflow caused, is the operator\u2019s overhead."));
  await every(PACE, () => (own.isWhole() ? guarded(look, main, signal) : undefined), signal);
}

/** The months up to a day, in UTC, newest first, such as "2026-10". */
export function lastMonths(day) {
  return Array.from({ length: MONTHS }, (_, back) => monthOf(Date.UTC(day.getUTCFullYear(), day.getUTCMonth() - back, 1)));
}

/** The first day of a month and of the one after it. */
export function boundsOf(month) {
  const [year, number] = month.split("-").map(Number);
  return [`${month}-01`, `${monthOf(Date.UTC(year, number, 1))}-01`];
}

function monthOf(at) {
  return new Date(at).toISOString().slice(0, 7);
}

function monthName(month) {
  const words = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
  return words.format(new Date(`${month}-01T00:00:00Z`));
}

function summaryOf(bill) {
  const until = bill.complete ? "" : " The bill is not final: the latest usage is not recorded yet.";
  const price = bill.price_per_core_hour === null
    ? "The operator has set no price; costs are in core hours."
    : `A core hour costs ${withCurrency(bill.price_per_core_hour, bill)}.`;
  return element("p", {},
    `${time(bill.since)} to ${time(bill.until)}, ${seconds(bill.metered_seconds)} of it metered. ${price}${until}`);
}

function tenantTable(bill) {
  const rows = bill.tenants.map((line) => ({ ...line, name: named(line.tenant) }));
  if (bill.whole) {
    const { others, overhead, measured, rented_others, rented_overhead } = bill.whole;
    rows.push(...(others.cpu_ns > 0 ? [{ name: "Other tenants", pays: others, rented: rented_others }] : []),
      { name: "Operator overhead", pays: overhead, rented: rented_overhead }, { name: "Measured total", pays: measured });
  }
  return [element("h2", {}, "Tenants"),
    table([{ title: "Tenant", cell: (row) => row.name }, ...paid(bill)], rows, { caption: "Costs by tenant" })];
}

function dataflowTable(bill, isOperator) {
  return [element("h2", {}, "Dataflows"),
    table([
      { title: "Dataflow", cell: (row) => (row.dataflow ? link(row.dataflow) : "Total") },
      { title: "Name", cell: (row) => named(row.name) },
      ...(isOperator ? [{ title: "Tenant", cell: (row) => named(row.tenant) }] : []),
      ...paid(bill),
    ], isOperator ? bill.dataflows : [...bill.dataflows, ...sums(bill)],
    { caption: "Costs by dataflow, including removed ones", empty: "Nothing was metered in this period." })];
}

/** A tenant's total, below its dataflows. */
function sums(bill) {
  return bill.dataflows.length === 0 ? [] : bill.tenants.map((line) => ({ ...line, dataflow: null }));
}

function link(dataflow) {
  return element("a", { href: `#/dataflows/${encodeURIComponent(dataflow)}` }, dataflow);
}

function rentsMachines(bill) {
  return (bill.whole?.rented.length ?? 0) > 0 || bill.tenants.some((line) => Number(line.rented) > 0);
}

function paid(bill) {
  const money = (amount) => (amount ? withCurrency(amount.amount, bill) : "\u2013");
  return [
    { title: "Core hours", number: true, cell: (row) => row.pays.core_hours },
    { title: "Alone", number: true, cell: (row) => row.most?.core_hours ?? "\u2013" },
    ...(bill.price_per_core_hour === null ? [] : [
      { title: "Amount", number: true, cell: (row) => money(row.pays) },
      { title: "Amount alone", number: true, cell: (row) => money(row.most) },
    ]),
    ...(rentsMachines(bill) ? [{
      title: "Rented machines",
      number: true,
      cell: (row) => (row.rented === undefined ? "\u2013" : withCurrency(row.rented, bill)),
    }] : []),
  ];
}

// The text of the service, since a number would be rounded.
function withCurrency(amount, bill) {
  return bill.currency ? `${amount} ${bill.currency}` : amount;
}
