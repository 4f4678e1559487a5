/** The overview: whether all is well, what needs attention, what runs, what sharing and packing save, and quotas. */

import { api } from "../api.js";
import { badge, element, named, replace, table } from "../dom.js";
import { cores, count, counted, percent, price, seconds } from "../format.js";
import { itemOf, sentenceOf } from "./overview/attention.js";
import { bar } from "./overview/bars.js";
import { quotas } from "../quotas.js";
import { savedFigures } from "../saved.js";
import { every } from "../live-updates.js";

export const title = "Overview";

const PACE = 5;
const SCATTERED_PACE = 60;
const QUOTA_PACE = 30;
const MOST_SHOWN = 10;
const RECENT = 5 * 60 * 1000;

export async function show(main, { session, signal }) {
  const places = Object.fromEntries(
    ["standing", "counts", "reports", "jobs", "scattered", "quotas"].map((name) => [name, element("div")]));
  replace(main, element("h1", {}, title), Object.values(places));
  const isOperator = session.kind === "operator";

  async function look() {
    const from = new Date(Date.now() - RECENT).toISOString();
    const [counts, hour, recent] = await Promise.all([
      api.get("/v1/overview", { signal }),
      api.get("/v1/reports/savings", { signal }),
      api.get("/v1/reports/savings", { query: { from }, signal }),
    ]);
    drawn(places.standing, standing(counts, isOperator));
    drawn(places.counts, dataflowCards(counts));
    drawn(places.reports, isOperator ? reported(hour, recent) : ownReport(hour, recent));
    if (counts.jobs) {
      drawn(places.jobs, jobs(counts.jobs));
    }
  }

  async function lookAtQuotas() {
    drawn(places.quotas, quotas(await api.pages("/v1/tenants", { signal }), isOperator));
  }

  // The fragmentation takes longest to compute.
  async function lookScattered() {
    drawn(places.scattered, scattered(await api.get("/v1/fragmentation", { signal })));
  }

  await Promise.all([
    every(PACE, look, signal),
    every(QUOTA_PACE, lookAtQuotas, signal),
    isOperator ? every(SCATTERED_PACE, lookScattered, signal) : null,
  ]);
}

/** Replace the content of a place if it has changed; else focus and selections stay. */
function drawn(place, content) {
  const made = element("div", {}, content);
  if (!place.firstChild?.isEqualNode(made)) {
    const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    replace(place, made);
    if (focused) {
      place.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    }
  }
}

/** Whether all is well, what needs attention, and where there is nothing yet what to do next. */
function standing(counts, isOperator) {
  const { level, words } = sentenceOf(counts);
  const items = counts.attention.slice(0, MOST_SHOWN).map((concern) => itemOf(concern, isOperator));
  const more = counts.concerns - items.length;
  const isEmpty = Object.values(counts.dataflows).every((number) => number === 0);
  return [
    element("p", { class: `standing ${level}` }, words),
    items.length === 0 ? null : [
      element("h2", {}, "Needs attention"),
      element("ul", { class: "attention" }, items.map((item) => element("li", {},
        badge(item.level, item.level === "bad" ? "error" : "warning"),
        element("span", { class: "words" }, item.words), element("a", { href: item.href }, "Fix"))),
      more > 0 ? element("li", { class: "faint" }, `and ${count(more)} more`) : null),
    ],
    isEmpty ? element("div", { class: "empty" },
      element("p", {}, "There are no dataflows yet. To begin:"),
      element("p", {}, element("a", { class: "button changing", href: "#/sources/new" }, "Add a source"), " ",
        element("a", { class: "button first", href: "#/compose" }, "Compose a dataflow"), " ",
        element("a", { class: "button", href: "#/modules" }, "See the modules")),
      element("p", {}, "The composer has templates to begin with.")) : null,
  ];
}

function card(words, number, ...more) {
  return element("div", { class: "card" },
    element("h3", {}, words), element("p", { class: "figure" }, number), more);
}

const LOOKS = { running: "good", degraded: "bad", deploying: "warn", draining: "warn" };

function dataflowCards(counts) {
  const states = Object.entries(counts.dataflows);
  const all = states.reduce((sum, [, number]) => sum + number, 0);
  const { tasks_running: running, tasks_submitted: submitted } = counts;
  return [
    element("h2", {}, "Dataflows"),
    element("div", { class: "cards" },
      card("Dataflows", count(all),
        bar("Dataflows by state", states.map(([name, number]) =>
          ({ look: LOOKS[name] ?? "faint", words: `${count(number)} ${name}`, number }))),
        element("p", {}, element("a", { href: all === 0 ? "#/compose" : "#/dataflows" },
          all === 0 ? "Compose the first one" : "All dataflows"))),
      card("Tasks running", count(running),
        bar("Tasks submitted", [
          { look: "accent", words: `${count(running)} run`, number: running },
          { look: "good", words: `${count(submitted - running)} saved by sharing`, number: submitted - running },
        ]),
        element("p", {}, `of ${count(submitted)} tasks submitted`),
        element("p", { class: "faint" }, byKind(counts.running_by_kind, counts.submitted_by_kind)),
        element("p", {}, submitted > 0 ? `${percent(1 - running / submitted)} saved by sharing${counts.jobs ? "" : " between your own dataflows"}. ` : null,
          element("a", { href: "#/graph" }, "The graph")))),
  ];
}

/** By kind, because sources cost almost nothing, so that sharing them saves little. */
function byKind(running, submitted) {
  return ["sources", "steps", "outputs"].map(function kind(name) {
    return `${count(running[name])} of ${count(submitted[name])} ${name}`;
  }).join(", ");
}

/** The cores that are taken, and those that sharing and packing save, as parts of what all would take without. */
function coresBar(taken, saved) {
  const figures = savedFigures(saved).filter((figure) => typeof figure.cores === "number");
  return bar("Cores in the last hour", [
    { look: "accent", words: `Cores taken: ${cores(taken)}`, number: taken },
    ...figures.map((figure, at) => ({
      look: figures.length > 1 && at === 0 ? "good" : "warn", words: `${figure.words}: ${figure.number}`, number: figure.cores,
    })),
  ]);
}

function savedCards(saved, report) {
  return savedFigures(saved).map((figure) => card(figure.words, figure.number,
    element("p", { class: "faint" }, figure.note), priced(figure, report)));
}

function reported(hour, recent) {
  return [
    element("h2", {}, "Cores"),
    hour.metered_seconds === 0 ? unmetered() : element("div", { class: "cards" },
      card("Cores now", recent.metered_seconds > 0 ? cores(recent.whole.measured.cores) : "–",
        element("p", {}, "measured over the last 5 minutes")),
      card("Cores in the last hour", cores(hour.whole.measured.cores), priced(hour.whole.measured, hour)),
      savedCards(hour.whole.saved, hour)),
    hour.metered_seconds === 0 ? null : coresBar(hour.whole.measured.cores, hour.whole.saved),
    element("p", {}, element("a", { href: "#/savings" }, "Savings over time")),
  ];
}

function ownReport(hour, recent) {
  const [own] = hour.shares;
  const [now] = recent.shares;
  return [
    element("h2", {}, "Your share"),
    hour.metered_seconds === 0 || !own ? unmetered() : element("div", { class: "cards" },
      card("Cores now", now ? cores(now.share.cores) : "–", element("p", {}, "measured over the last 5 minutes")),
      card("Cores in the last hour", cores(own.share.cores), priced(own.share, hour)),
      card("Cores if run alone", cores(own.alone.likely), estimated(own.alone)),
      savedCards(own.saved, hour)),
    own ? coresBar(own.share.cores, own.saved) : null,
    element("p", {}, element("a", { href: "#/savings" }, "Savings over time")),
  ];
}

function unmetered() {
  return element("p", { class: "empty" }, "No data yet. The first figures appear a few minutes after a dataflow starts.");
}

function estimated(estimate) {
  return element("p", { class: "faint" }, `estimate: ${cores(estimate.low)} to ${cores(estimate.high)}`);
}

function priced(amount, report) {
  return amount.price === null || amount.price === undefined ? null
    : element("p", {}, `${price(amount.price, report.currency)} in the last hour`);
}

function jobs(report) {
  return [
    element("h2", {}, "Jobs"),
    element("div", { class: "cards" },
      card("Jobs", count(Object.values(report.states).reduce((sum, number) => sum + number, 0)),
        element("p", {}, Object.entries(report.states).map(function state([name, number]) {
          return [badge(name, `${count(number)} ${name}`), " "];
        })),
        element("p", {}, element("a", { href: "#/jobs" }, "All jobs"))),
      card("Bridges", count(report.bridges), element("p", {}, "streams between jobs")),
      card("Events waiting", count(report.lag_events),
        report.lag_seconds === null ? null : element("p", {}, `the oldest for ${seconds(report.lag_seconds)}`))),
    report.in_trouble > 0 ? [
      element("h3", {}, `Jobs with problems: ${count(report.in_trouble)}`),
      table([
        { title: "Job", cell: (job) => element("a", { href: `#/jobs/${encodeURIComponent(job.job)}` }, `Job ${job.job}`) },
        { title: "State", cell: (job) => badge(job.state) },
        { title: "Problem", cell: (job) => named(job.trouble) },
      ], report.troubled, { caption: "Jobs with problems" }),
    ] : null,
  ];
}

function scattered(report) {
  return [
    element("h2", {}, "Fragmentation"),
    element("p", {},
      `${counted(report.jobs, "job")}, ${count(report.fewest)} needed; ${counted(report.paused, "paused task")}. `,
      `Estimated cost: ${cores(report.cores)} cores and ${seconds(report.latency_seconds)} of latency.`),
    savesMost(report.saves),
    report.move ? element("p", {}, `Moving ${counted(report.move.tasks, "task")}: ${report.move.phase}.`) : null,
  ];
}

/** Which of the three saves most, and from which work for a batch on sharing saves more than packing. */
function savesMost(saves) {
  const most = saves.most === "" ? "Nothing saves cores" : `What saves most is ${saves.most}`;
  const bySharing = saves.sharing === null ? "" : `by sharing ${cores(saves.sharing)}, `;
  const each = `cores saved in the last hour: ${bySharing}by packing ${cores(saves.packing)}; `
    + `defragmenting would save ${cores(saves.defragmenting)}`;
  const here = `Tasks take ${seconds(saves.work_per_batch_seconds)} of a batch`;
  const from = saves.crossover_seconds === null ? ""
    : `; sharing saves more than packing once they take ${seconds(saves.crossover_seconds)}`;
  return element("p", {}, `${most}: ${each}. ${here}${from}.`);
}
