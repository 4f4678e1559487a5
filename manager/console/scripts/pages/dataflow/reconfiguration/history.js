/** The reconfigurations of a dataflow: the progress of the one under way, and the past ones. */

import { badge, element, named, table } from "../../../dom.js";
import { seconds, time } from "../../../format.js";

const STEPS = [
  ["waiting", "Waiting: it begins by itself once others have switched. Nothing has changed yet."],
  ["preparing", "Preparing: jobs that wait for others get ready. Nothing has changed yet."],
  ["switching", "Switching: the jobs take the new configuration."],
  ["switched", "Switched: every job runs the new configuration. Older events may still be under way, and a task that fails makes it go back by itself."],
  ["done", "Done: the older events are gone too."],
];
const CANCELLABLE = ["waiting", "preparing"];
const STATES = new Map(STEPS.map(([state], place) => [state, place]));

/** Whether a reconfiguration is under way. */
export function isUnderWay({ ended }) {
  return ended === null;
}

/** The progress or the outcome of a reconfiguration, with a button to cancel it while that is possible. */
export function progress(each, cancel) {
  const reached = STATES.get(each.state);
  const isLast = each.state === "done";
  return element("section", { class: "card", "aria-label": `Reconfiguration ${each.id}` },
    element("h3", { tabindex: "-1" }, each.undoes === null ? `Reconfiguration ${each.id}` : `Reconfiguration ${each.id}, which undoes ${each.undoes}`),
    reached === undefined ? element("p", {}, badge(each.state), " ", each.outcome || "Nothing has changed.")
      : element("ol", { class: "steps" }, STEPS.map(([state, words], place) => element("li", {
        class: place < reached || isLast ? "past" : null, "aria-current": state === each.state ? "step" : null,
      }, words))),
    each.queue ? element("p", {}, queued(each.queue)) : null,
    each.switched === null ? null : element("p", {}, `In effect after ${seconds(delayOf(each))}.`),
    CANCELLABLE.includes(each.state)
      ? element("button", { class: "button changing", type: "button", on: { click: cancel } }, "Cancel the reconfiguration") : null);
}

/** The table of reconfigurations, newest first; `undo(one)` is offered for the last one that can be undone. */
export function history({ items, next }, dataflow, undo) {
  const undoable = undoableOf(items);
  return table([
    { title: "Id", cell: (each) => each.id },
    { title: "State", cell: (each) => badge(each.state) },
    { title: "Asked for", cell: (each) => time(each.begun) },
    { title: "By", cell: (each) => named(each.who) },
    { title: "In effect after", number: true, cell: (each) => seconds(each.switched === null ? null : delayOf(each)) },
    { title: "Over", cell: (each) => time(each.ended) },
    { title: "Changed tasks", cell: (each) => changed(each, dataflow) },
    { title: "Outcome", cell: outcome },
    {
      title: "Actions", changing: true,
      cell: (each) => (each === undoable ? element("button", {
        class: "button small", type: "button", "aria-label": `Undo reconfiguration ${each.id}`, on: { click: () => undo(each) },
      }, "Undo…") : null),
    },
  ], items, { caption: `${next ? `The newest ${items.length}` : "Newest first"}; only the last one can be undone`, empty: "It was never reconfigured." });
}

/** The last one that has switched; none if that went back by itself already. */
function undoableOf(items) {
  const last = items.find((each) => each.state !== "abandoned");
  const hasSwitched = last !== undefined && ["switched", "done"].includes(last.state);
  const undone = items.find((each) => each.id === last?.undoes);
  return hasSwitched && undone?.state !== "reverted" ? last : null;
}

/** What one that waits waits for. */
function queued({ place, behind, behind_others: others, behind_moves: moves }) {
  const names = behind.map((id) => `reconfiguration ${id}`);
  if (others > 0) {
    names.push(others === 1 ? "one of somebody else" : `${others} of others`);
  }
  if (moves) {
    names.push("tasks that are being moved");
  }
  return names.length === 0 ? "It is about to begin." : `Place ${place} of the queue. It waits for ${names.join(", ")}.`;
}

function delayOf({ begun, switched }) {
  return (new Date(switched) - new Date(begun)) / 1000;
}

function changed({ scope }, id) {
  const names = (scope?.tasks ?? []).filter((each) => each.changed && each.dataflow === id).map((each) => each.task);
  return names.flatMap((name, place) => (place === 0 ? [named(name)] : [", ", named(name)]));
}

function outcome({ undoes, outcome: words, queue }) {
  const parts = [undoes === null ? "" : `undoes ${undoes}`, words, queue ? queued(queue) : ""];
  return element("div", { class: "wide" }, parts.filter(Boolean).join("; "));
}
