/** Whether a dataflow is well, in a sentence, and what to do if it is not. */

import { element, named } from "../../dom.js";
import { count, counted, seconds } from "../../format.js";
import { smallButton } from "../../forms.js";

/** The seconds of events that may wait without being worth a word. */
const USUAL_WAIT = 5;

/** The sentence, also on a change under way, with a button where a tab has more; `open(tab)` opens it. */
export function health(dataflow, tasks, isChanging, open) {
  const { words, remedy = "", tab } = judged(dataflow, tasks);
  return element("p", { class: "flow-health" }, words, remedy ? [" ", remedy] : null,
    isChanging ? " A change is under way." : null,
    [tab, isChanging ? CHANGES : null].filter(Boolean).map(({ id, words: more }) => [
      " ", smallButton(more, () => open(id))]));
}

const CHANGES = { id: "changes", words: "See the changes" };
const LETTERS = { id: "dead-letters", words: "See the dead letters" };

function judged(dataflow, tasks) {
  const { state, reason } = dataflow;
  if (state === "removed") {
    return { words: "Removed: nothing of it runs.", remedy: "Submit its document again to have it back." };
  }
  if (state === "draining") {
    return { words: "Draining: what its sources had sent is being worked off. Then it is removed." };
  }
  const failed = tasks.filter((task) => task.state === "failed");
  if (failed.length > 0) {
    const [first] = failed;
    const rest = failed.length > 1 ? `, and ${counted(failed.length - 1, "other")} failed, too` : "";
    return {
      words: ["Not well: ", nameOf(first), ` has failed: ${first.reason}${rest}.`],
      remedy: "Its events are kept. Choose the task and change it, or replace the document; then replay them.", tab: LETTERS,
    };
  }
  if (state === "degraded") {
    return { words: `Not well: ${reason}.`, remedy: "If this lasts, ask the operator." };
  }
  if (state === "deploying") {
    return { words: `Starting: ${counted(dataflow.tasks.length, "task")}; ${reason}.`, remedy: "This may take a minute." };
  }
  return running(dataflow, tasks);
}

function running({ outputs, reason, document: { tasks: written } }, tasks) {
  const rate = rateOf(tasks, written);
  const ages = outputs.map((output) => output.latency_seconds_p50).filter((age) => typeof age === "number");
  const flow = [
    rate === null ? "" : `${counted(Number(rate.toPrecision(3)), "event")} a second`,
    ages.length > 0 ? `outputs ${seconds(Math.max(...ages))} old` : "",
    waitingOf(tasks, rate),
  ].filter(Boolean).join(", ");
  const words = [`Running: ${counted(tasks.length, "task")}, ${sharedOf(tasks)}${flow ? `; ${flow}` : ""}.`];
  const erring = tasks.find((task) => task.events_dead_per_second > 0);
  if (erring) {
    return { words: [words, " But ", nameOf(erring), " fails on some events."], tab: LETTERS };
  }
  if (reason) {
    return { words: [words, ` But ${reason}.`] };
  }
  return rate === 0 ? { words, remedy: "Nothing has arrived in the last minute: does its source send?" } : { words };
}

function nameOf({ id }) {
  return element("strong", {}, named(id));
}

/** How many tasks are shared with others. */
function sharedOf(tasks) {
  const shared = tasks.filter((task) => task.others > 0).length;
  if (shared === 0) {
    return "none of them shared with others";
  }
  return `${shared === tasks.length ? "all" : count(shared)} of them shared with others`;
}

/** The events a second that its sources bring; null if it is not known of one of them. */
function rateOf(tasks, written) {
  const sources = new Set(written.filter(({ type }) => type === "source").map(({ id }) => id));
  const rates = tasks.filter(({ id }) => sources.has(id)).map((task) => task.events_out_per_second);
  return rates.length === 0 || rates.includes(null) ? null : rates.reduce((sum, one) => sum + one, 0);
}

function waitingOf(tasks, rate) {
  const waiting = tasks.reduce((most, task) => Math.max(most, task.lag_events ?? 0), 0);
  return waiting > USUAL_WAIT * Math.max(1, rate ?? 0) ? `${count(waiting)} of them waiting` : "";
}
