/** Savings: what was measured and what separate execution would have taken, over time and for each tenant. */

import { api } from "../api.js";
import { chart } from "../chart.js";
import { element, field, named, replace, table } from "../dom.js";
import { cores, percent, price, seconds, time } from "../format.js";
import { refresh } from "../refreshing.js";
import { every } from "../live.js";
import { guarded, ownBounds, remember, selectTenant } from "../reports.js";

const HOUR = 3600;
const LAST = [
  { name: "hour", words: "Last hour", length: HOUR },
  { name: "6-hours", words: "Last 6 hours", length: 6 * HOUR },
  { name: "day", words: "Last 24 hours", length: 24 * HOUR },
  { name: "week", words: "Last 7 days", length: 7 * 24 * HOUR },
  { name: "month", words: "Last 30 days", length: 30 * 24 * HOUR },
  { name: "own", words: "From one time to another", length: null },
];
const PACE = 30;

export const title = "Savings";

/** Show the page. */
export async function show(main, { parameters, session, signal, say }) {
  const chosen = element("select", {}, LAST.map((each) => element("option", { value: each.name }, each.words)));
  chosen.value = LAST.some((each) => each.name === parameters.last) ? parameters.last : "hour";
  const [from, to] = ["from", "to"].map((name) => element("input", { type: "datetime-local", value: parameters[name] }));
  const tenant = session.kind === "operator" ? await selectTenant(parameters.tenant, signal) : null;
  const bounds = [field("From", from), field("To", to)];
  const own = ownBounds(chosen, from, to, bounds);
  const [figures, drawing, shares, numbers] = [0, 1, 2, 3].map(() => element("div", {}));
  let drawn = new AbortController();
  let looked = 0;

  async function look(isChosen) {
    looked += 1;
    const turn = looked;
    const query = { ...interval(chosen.value, from.value, to.value), tenant: tenant?.value };
    const [whole, series] = await Promise.all([
      api.get("/v1/reports/savings", { query, signal }),
      api.get("/v1/reports/savings/series", { query, signal }),
    ]);
    if (turn !== looked) {
      // Another interval was chosen meanwhile.
      return false;
    }
    refresh(figures, cards(whole, tenant?.value));
    if (isChosen || !(drawing.contains(document.activeElement) || drawing.matches(":hover"))) {
      // Whoever reads the chart right now keeps it until then.
      drawn.abort();
      drawn = new AbortController();
      replace(drawing, pictured(series, drawn.signal));
    }
    refresh(shares, tables(whole, session.kind === "operator"));
    refresh(numbers, numbered(series));
    return true;
  }

  async function changed() {
    own.showFields();
    const words = { last: chosen.value, from: from.value, to: to.value, tenant: tenant?.value };
    remember("#/savings", words);
    if (own.isWhole() && await look(true)) {
      say("The savings of the interval are shown.");
    }
  }

  signal.addEventListener("abort", () => drawn.abort());
  for (const each of [chosen, from, to, tenant].filter(Boolean)) {
    each.addEventListener("change", () => guarded(changed, main, signal));
  }
  own.showFields();
  replace(main, element("h1", {}, title),
    element("div", { class: "toolbar" }, field("Interval", chosen), bounds, tenant ? field("Tenant", tenant) : null),
    figures, element("h2", {}, "Over time"), drawing,
    element("details", {}, element("summary", {}, "The numbers of the chart"), numbers),
    element("h2", {}, "Who pays for what"), shares);
  await every(PACE, () => (own.isWhole() ? guarded(look, main, signal) : undefined), signal);
}

function interval(name, from, to) {
  const { length } = LAST.find((each) => each.name === name);
  if (length === null) {
    return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  }
  return { from: new Date(Date.now() - length * 1000).toISOString() };
}

function cards(told, tenant) {
  const metered = element("p", { class: "faint" },
    told.metered_seconds === 0
      ? "Nothing was metered in this interval. A minute is written down once it is over."
      : `${time(told.since)} to ${time(told.until)}, ${seconds(told.metered_seconds)} of it metered.`);
  const shown = [];
  if (told.whole) {
    const { measured, alone_packed: packed, saving_by_sharing: sharing, saving_by_packing: packing, overhead } = told.whole;
    shown.push(
      card("Measured", measured.cores, priced(measured.price, told)),
      workSaved(told.whole.work_saved),
      card("Saved by sharing", sharing.likely, range(sharing), partOf(sharing.likely, packed.likely, "of packed jobs")),
      card("Saved by packing", packing.likely, range(packing)),
      card("Overhead", overhead.cores, partOf(overhead.cores, measured.cores, "of what was measured")));
  }
  if (!told.whole || tenant) {
    for (const share of told.shares) {
      shown.push(
        card("Share", share.share.cores, priced(share.share.price, told)),
        card("Alone", share.alone.likely, range(share.alone)),
        workSaved(share.work_saved),
        card("Saved", share.saving.likely, range(share.saving), partOf(share.saving.likely, share.alone.likely, "of alone")));
    }
  }
  return [element("div", { class: "cards" }, shown), metered];
}

function card(name, value, ...notes) {
  return figure(name, `${cores(value)} cores`, notes);
}

function workSaved(part) {
  return part === null ? null : figure("Work saved by sharing", percent(part), ["of the CPU of tasks, as measured"]);
}

function figure(name, text, notes) {
  return element("section", { class: "card" },
    element("h2", {}, name),
    element("p", { class: "figure" }, text),
    notes.filter(Boolean).map((note) => element("p", { class: "faint" }, note)));
}

function range({ low, high }) {
  // The least may be a rounded -0.
  return `between ${cores(low || 0)} and ${cores(high || 0)}`;
}

function partOf(part, whole, words) {
  return whole > 0 ? `${percent(part / whole)} ${words}` : null;
}

function priced(amount, told) {
  return amount === null ? null : price(amount, told.currency);
}

/** Lines for what the caller is told: the whole for operators, else a tenant's share. */
function linesOf({ points }) {
  const [whole, own] = ["measured", "share"].map((name) => points.some((point) => point[name]));
  const taken = (name, words, kind) => ({ name: words, kind, values: points.map((point) => point[name]?.cores ?? null) });
  const estimated = (name, words, kind) => ({
    name: words,
    kind,
    values: points.map((point) => point[name]?.likely ?? null),
    low: points.map((point) => point[name]?.low ?? null),
    high: points.map((point) => point[name]?.high ?? null),
  });
  return [
    ...(whole ? [taken("measured", "measured", "measured"), estimated("alone_packed", "packed alone", "packed"),
      estimated("alone_launched", "launched alone", "launched")] : []),
    ...(own ? [taken("share", "share", "share"), estimated("alone", "alone", "alone")] : []),
  ];
}

function pictured(series, signal) {
  const lines = linesOf(series);
  if (lines.length === 0) {
    return element("p", { class: "empty" }, "Nothing was metered in this interval.");
  }
  const times = series.points.map((point) => new Date(point.at));
  return chart({ label: "Cores over time", times, lines, told: cores, signal });
}

function numbered(series) {
  const lines = linesOf(series);
  const rows = series.points.map((point, at) => ({ point, at }));
  return table([
    { title: "From", cell: ({ point }) => time(point.at) },
    { title: "Metered", number: true, cell: ({ point }) => seconds(point.metered_seconds) },
    ...lines.map((line) => ({ title: line.name, number: true, cell: ({ at }) => bounded(line, at) })),
  ], rows, { caption: `Cores in steps of ${seconds(series.step)}` });
}

function bounded({ values, low, high }, at) {
  const bounds = low && values[at] !== null ? ` (${cores(low[at])}–${cores(high[at])})` : "";
  return cores(values[at]) + bounds;
}

function tables(told, isOperator) {
  const sharing = { empty: "Nobody had a share in this interval." };
  return [
    isOperator ? table(columns("Tenant", (row) => named(row.tenant), told), told.shares,
      { caption: "Tenants", ...sharing }) : null,
    !isOperator || told.dataflows.length > 0
      ? table(columns("Dataflow", (row) => link(row.dataflow), told), told.dataflows, { caption: "Dataflows", ...sharing })
      : null,
    isOperator ? null : element("p", { class: "faint" }, `Tenants that had a share: ${told.tenants}.`),
  ];
}

function columns(name, cell, told) {
  const money = { title: "Price", number: true, cell: (row) => priced(row.share.price, told) };
  return [
    { title: name, cell },
    { title: "Share", number: true, cell: (row) => cores(row.share.cores) },
    { title: "Alone", number: true, cell: (row) => `${cores(row.alone.likely)} (${cores(row.alone.low)}–${cores(row.alone.high)})` },
    { title: "Saved", number: true, cell: (row) => `${cores(row.saving.likely)} (${cores(row.saving.low)}–${cores(row.saving.high)})` },
    ...(told.price_per_core_hour === null ? [] : [money]),
  ];
}

function link(dataflow) {
  return element("a", { href: `#/dataflows/${encodeURIComponent(dataflow)}` }, dataflow);
}
