/** Savings: measured cores and those of separate execution, over time and by tenant. */

import { api } from "../api.js";
import { element, field, named, replace, table } from "../dom.js";
import { cores, percent, price, seconds, time } from "../format.js";
import { linePlot } from "../line-plot.js";
import { refresh } from "../refresh.js";
import { every } from "../live-updates.js";
import { guarded, ownBounds, remember, selectTenant } from "../reports.js";
import { savedFigures } from "../saved.js";

const HOUR = 3600;
const LAST = [
  { name: "hour", words: "Last hour", length: HOUR },
  { name: "6-hours", words: "Last 6 hours", length: 6 * HOUR },
  { name: "day", words: "Last 24 hours", length: 24 * HOUR },
  { name: "week", words: "Last 7 days", length: 7 * 24 * HOUR },
  { name: "month", words: "Last 30 days", length: 30 * 24 * HOUR },
  { name: "own", words: "Custom", length: null },
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
      // Another interval was chosen in the meantime.
      return false;
    }
    refresh(figures, cards(whole, tenant?.value));
    if (isChosen || !(drawing.contains(document.activeElement) || drawing.matches(":hover"))) {
      // A chart that is being read is not replaced.
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
      say("Savings updated.");
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
    element("details", {}, element("summary", {}, "Chart data"), numbers),
    element("h2", {}, "Shares"), shares);
  await every(PACE, () => (own.isWhole() ? guarded(look, main, signal) : undefined), signal);
}

function interval(name, from, to) {
  const { length } = LAST.find((each) => each.name === name);
  if (length === null) {
    return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  }
  return { from: new Date(Date.now() - length * 1000).toISOString() };
}

function cards(report, tenant) {
  const metered = element("p", { class: "faint" },
    report.metered_seconds === 0
      ? "Nothing was metered in this interval. A minute is recorded once it is over."
      : `${time(report.since)} to ${time(report.until)}, ${seconds(report.metered_seconds)} of it metered.`);
  const shown = [];
  if (report.whole) {
    const { measured, overhead, saved } = report.whole;
    shown.push(
      card("Measured", measured.cores, priced(measured.price, report)),
      ...savedCards(saved, report),
      card("Overhead", overhead.cores, partOf(overhead.cores, measured.cores, "of the measured cores")));
  }
  if (!report.whole || tenant) {
    for (const share of report.shares) {
      shown.push(
        card("Share", share.share.cores, priced(share.share.price, report)),
        card("Alone", share.alone.likely, range(share.alone)),
        ...savedCards(share.saved, report));
    }
  }
  return [element("div", { class: "cards" }, shown), metered];
}

function card(name, value, ...notes) {
  return figure(name, `${cores(value)} cores`, notes);
}

function savedCards(saved, report) {
  return savedFigures(saved).map((each) => figure(each.words, each.number, [each.note, priced(each.price, report)]));
}

function figure(name, text, notes) {
  return element("section", { class: "card" },
    element("h2", {}, name),
    element("p", { class: "figure" }, text),
    notes.filter(Boolean).map((note) => element("p", { class: "faint" }, note)));
}

function range({ low, high }) {
  // A bound may be -0.
  return `${cores(low || 0)} to ${cores(high || 0)}`;
}

function partOf(part, whole, words) {
  return whole > 0 ? `${percent(part / whole)} ${words}` : null;
}

function priced(amount, report) {
  return amount === null ? null : price(amount, report.currency);
}

/** The lines of the chart: the total for operators, else a tenant's share. */
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
    ...(whole ? [taken("measured", "measured", "measured"), estimated("alone_packed", "packed without sharing", "packed"),
      estimated("alone_launched", "a job for each dataflow", "launched")] : []),
    ...(own ? [taken("share", "share", "share"), estimated("alone", "alone", "alone")] : []),
  ];
}

function pictured(series, signal) {
  const lines = linesOf(series);
  if (lines.length === 0) {
    return element("p", { class: "empty" }, "Nothing was metered in this interval.");
  }
  const times = series.points.map((point) => new Date(point.at));
  const shown = lines.map(({ low, ...line }) => ({ ...line, hasBounds: low !== undefined }));
  const plot = linePlot({ label: "Cores over time", lines: shown, format: cores, unknown: "not metered", signal });
  plot.update(times, lines);
  return plot.node;
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

function tables(report, isOperator) {
  const sharing = { empty: "No shares in this interval." };
  return [
    isOperator ? table(columns("Tenant", (row) => named(row.tenant), report), report.shares,
      { caption: "Tenants", ...sharing }) : null,
    !isOperator || report.dataflows.length > 0
      ? table(columns("Dataflow", (row) => link(row.dataflow), report), report.dataflows, { caption: "Dataflows", ...sharing })
      : null,
    isOperator ? null : element("p", { class: "faint" }, `Tenants with a share: ${report.tenants}.`),
  ];
}

function columns(name, cell, report) {
  const money = { title: "Price", number: true, cell: (row) => priced(row.share.price, report) };
  return [
    { title: name, cell },
    { title: "Share", number: true, cell: (row) => cores(row.share.cores) },
    { title: "Alone", number: true, cell: (row) => `${cores(row.alone.likely)} (${cores(row.alone.low)}–${cores(row.alone.high)})` },
    { title: "Work saved by sharing", number: true, cell: ({ saved }) => percent(saved.work_by_sharing) },
    { title: "Cores saved by sharing", number: true, cell: ({ saved }) => cores(saved.cores_by_sharing?.cores) },
    { title: "Cores saved by packing", number: true, cell: ({ saved }) => cores(saved.cores_by_packing.likely) },
    ...(report.price_per_core_hour === null ? [] : [money]),
  ];
}

function link(dataflow) {
  return element("a", { href: `#/dataflows/${encodeURIComponent(dataflow)}` }, dataflow);
}
