/** The jobs, the hosts and the machines, live. */

import { api } from "../api.js";
import { badge, element, replace, table } from "../dom.js";
import { ago, cores, count, counted, seconds } from "../format.js";
import { every } from "../live-updates.js";
import { figuresOf, perSecond } from "../graph/figures.js";
import { refresh } from "../refresh.js";
import { History, sparkline } from "../graph/sparkline.js";
import { classSection } from "./jobs/classes.js";
import { imageSection } from "./jobs/images.js";
import { machineSection } from "./jobs/machines.js";

const PACE = 3;
/** The states of a spool that works: it takes events, or another host has it. */
const WORKING = new Set(["ready", "elsewhere"]);
/** The number of samples over which the cores of a host are averaged. */
const LOOKS = 10;

export const title = "Jobs";

/** Show the page. */
export async function show(main, { signal, say }) {
  const [histories, busy] = [new Map(), new Map()];
  const [trouble, jobs, hosts] = [element("div", {}), element("div", {}), element("div", {})];
  const machines = machineSection({ signal, say });
  const images = imageSection({ signal });
  const classes = classSection({ signal });
  const sections = [images, machines, classes];
  replace(main, element("h1", {}, title), trouble, jobs, element("h2", {}, "Hosts"), hosts,
    sections.map((section) => section.node));

  async function look() {
    const [allJobs, allHosts] = await Promise.all([
      api.pages("/v1/jobs", { signal }), api.pages("/v1/hosts", { signal }),
    ]);
    for (const job of allJobs) {
      const history = histories.get(job.job) ?? new History();
      history.note(figuresOf(job));
      histories.set(job.job, history);
    }
    refresh(trouble, troubles(allJobs, allHosts));
    refresh(jobs, jobTable(allJobs, histories));
    allHosts.forEach(noteCpu);
    refresh(hosts, hostTable(allHosts, busy));
    for (const section of sections) {
      await section.look();
    }
  }

  /** Sample the cores that a host uses: its CPU time between samples, over the time between them. */
  function noteCpu(host) {
    const before = busy.get(host.name) ?? { looks: [], history: new History() };
    const taken = { at: Date.parse(host.seen), cpu: Object.values(host.cpu).reduce((sum, each) => sum + each, 0) };
    const looks = [...before.looks, taken].slice(-LOOKS);
    const [first, passed] = [looks[0], (taken.at - looks[0].at) / 1000];
    const used = passed > 0 && taken.cpu >= first.cpu ? (taken.cpu - first.cpu) / passed : null;
    before.history.note({ cores: used });
    busy.set(host.name, { looks, history: before.history });
  }

  await every(PACE, look, signal);
}

/** The spools of a host that take no events, with the reasons. */
function brokenSpools(host) {
  return Object.entries(host.spools).filter(([, state]) => !WORKING.has(state));
}

/** The list of problems. */
function troubles(jobs, hosts) {
  const wrong = [
    ...hosts.filter((host) => !host.alive).map((host) => `Host ${host.name} is not alive.`),
    ...hosts.filter((host) => host.trouble).map((host) => `Host ${host.name}: ${host.trouble}.`),
    ...hosts.flatMap((host) =>
      brokenSpools(host).map(([name, state]) => `The spool of ${name} on host ${host.name}: ${state}.`)),
    ...jobs.filter((job) => job.trouble).map((job) => `Job ${job.job}: ${job.trouble}`),
  ];
  return wrong.length === 0 ? null : element("div", { class: "problem" },
    element("h2", {}, "Problems"), element("ul", {}, wrong.map((each) => element("li", {}, each))));
}

function jobTable(jobs, histories) {
  function drawn(job, field, words) {
    return [words(job[field]), sparkline(histories.get(job.job).of(field), words)];
  }
  return table([
    { title: "Job", cell: ({ job }) => element("a", { href: `#/jobs/${encodeURIComponent(job)}` }, `job ${job}`) },
    { title: "Host", cell: (job) => job.host },
    { title: "State", cell: (job) => badge(job.state) },
    { title: "Tasks", number: true, cell: (job) => tasksOf(job) },
    { title: "Shards", number: true, cell: (job) => shardsOf(job) },
    { title: "Pace", number: true, cell: (job) => seconds(job.pace) },
    { title: "Events in", number: true, cell: (job) => cell(drawn(job, "events_in_per_second", perSecond)) },
    { title: "Events out", number: true, cell: (job) => perSecond(job.events_out_per_second) },
    { title: "Batch", number: true, cell: (job) => cell(drawn(job, "batch_seconds_p50", seconds)) },
    { title: "Waiting", number: true, cell: (job) => cell(drawn(job, "lag_events", count)) },
    { title: "Latency", number: true, cell: (job) => seconds(job.latency_seconds_p50) },
    { title: "Restarts", number: true, cell: (job) => count(job.restarts) },
    { title: "Last seen", cell: (job) => (job.seen ? ago(job.seen) : "never") },
  ], jobs, { caption: `${counted(jobs.length, "job")}; each job runs a batch once per pace; batch and latency are medians`, empty: "No jobs are running." });
}

function cell(parts) {
  return element("div", {}, parts);
}

function tasksOf({ active, paused }) {
  return paused > 0 ? `${count(active)}, ${count(paused)} paused` : count(active);
}

function shardsOf({ shards, hot_group: hot }) {
  return hot === null ? count(shards) : `${count(shards)}, a hot key`;
}

function hostTable(hosts, busy) {
  function used(host) {
    const numbers = busy.get(host.name).history.of("cores");
    return cell([cores(numbers.at(-1)), sparkline(numbers, cores)]);
  }
  return table([
    { title: "Host", cell: (host) => host.name },
    { title: "State", cell: (host) => badge(host.alive ? "alive" : "away") },
    { title: "Cores", number: true, cell: (host) => cores(host.cores) },
    { title: "Jobs", cell: (host) => jobLinks(host.jobs) },
    { title: "Cores used", number: true, cell: used },
    { title: "CPU time", cell: (host) => list(taken(host.cpu)) },
    { title: "Spools", number: true, cell: (host) => count(Object.keys(host.spools).length) },
    { title: "Dropped", number: true, cell: (host) => count(host.dropped) },
    { title: "Image", cell: (host) => host.image || "–" },
    { title: "Tags", cell: (host) => list(host.tags) },
    { title: "Release", cell: (host) => host.release || "–" },
    { title: "Last seen", cell: (host) => (host.seen ? ago(host.seen) : "never") },
  ], hosts, {
    caption: counted(hosts.length, "host"),
    empty: "No hosts. Start one with: braid host",
  });
}

function taken(cpu) {
  return Object.entries(cpu).map(([name, each]) => `${name} ${seconds(each)}`);
}

function jobLinks(jobs) {
  return jobs.length === 0 ? "–" : element("span", {}, jobs.flatMap((job, place) => [
    place > 0 ? ", " : null, element("a", { href: `#/jobs/${encodeURIComponent(job)}` }, job),
  ]));
}

function list(words) {
  return words.length === 0 ? "–" : words.join(", ");
}
