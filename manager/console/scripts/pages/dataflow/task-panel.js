/** The panel of the task that was chosen in the graph: what it is, its figures, its changes, and the newest events. */

import { badge, element, named, prose, replace } from "../../dom.js";
import { count, hour, time } from "../../format.js";
import { smallButton } from "../../forms.js";
import { facts } from "../../graph/details.js";
import { perSecond } from "../../graph/figures.js";
import { refresher } from "../../refresh.js";
import { cpuOf, sharedWith, sizeOf } from "./task-words.js";

/**
 * The panel.
 * @param {object} types those of `taskTypes`
 * @param {object} on `action(task)` is the button that changes a task, `events(id)` its live events, and `left()` is called
 *   when the panel is closed
 * @returns {{node, show, update, focus}} `show(id)` shows another task, or closes the panel for null
 */
export function taskPanel(types, on) {
  const heading = element("h2", { id: "chosen-task", tabindex: "-1" });
  const places = Object.fromEntries(["kind", "state", "figures", "config", "past", "change"].map((name) => [name, element("div", {})]));
  const eventsPlace = element("div", { class: "flow-port-events" });
  const node = element("section", { class: "card flow-panel", hidden: true, "aria-labelledby": heading.id, on: { keydown: key } },
    element("div", { class: "flow-panel-head" }, heading,
      smallButton("Close", on.left, "Close the task")),
    places.kind, places.state, places.figures, places.change, places.config, eventsPlace, places.past);
  let chosen = null;
  let part = refresher();
  let events = null;

  function key(event) {
    // Escape in a field belongs to the field.
    if (event.key === "Escape" && !event.target.closest("input, select, textarea")) {
      on.left();
    }
  }

  function show(id) {
    chosen = id;
    part = refresher();
    events?.close();
    events = null;
    replace(eventsPlace);
    node.hidden = id === null;
    replace(heading, id === null ? null : named(id));
  }

  /** Bring it up to date with the dataflow, the figures by task, and the reconfigurations. */
  function update(dataflow, figures, reconfigurations, isChangeable) {
    const task = dataflow.document.tasks.find(({ id }) => id === chosen);
    if (chosen === null || task === undefined) {
      return;
    }
    const running = dataflow.tasks.find(({ id }) => id === chosen);
    const alike = dataflow.tasks.filter(({ id, instance }) => id !== chosen && instance === running?.instance).map(({ id }) => id);
    const known = figures.get(chosen) ?? null;
    part(places.kind, task.type, kindOf);
    part(places.state, [known?.state, known?.reason], ([state, reason]) => (state ? [badge(state), reason ? ` ${reason}` : null] : null));
    part(places.figures, [known, running ?? null, alike], ([numbers, at, others]) => figuresOf(numbers, at, others));
    part(places.config, task.config ?? {}, configOf);
    part(places.past, reconfigurations.filter((one) => touches(one, dataflow.id, chosen)), pastOf);
    if (events === null && known !== null) {
      events = on.events(chosen);
      replace(eventsPlace, events.node);
    }
    part(places.change, isChangeable, (isOn) => (isOn ? on.action(task) : null));
  }

  function kindOf(type) {
    const about = element("span", {});
    types.find(type).then((known) => replace(about, known === null ? "This type is not installed any more." : prose(known.summary)))
      // Without the sentence, the name of the type is still there.
      .catch(() => replace(about));
    return element("p", {}, element("code", {}, type), " ", about);
  }

  return { node, show, update, focus: () => heading.focus({ preventScroll: true }) };
}

function figuresOf(known, running, alike) {
  // For a moment after a replacement, only one of them may be there.
  if (known === null || running === null) {
    return element("p", { class: "faint" }, "It does not run.");
  }
  return facts([
    ["Events in", perSecond(known.events_in_per_second)],
    ["Events out", perSecond(known.events_out_per_second)],
    ["CPU", known.cores === null ? "–" : `${cpuOf(known.cores)} cores`],
    ["Waiting events", count(known.lag_events)],
    ["Errors", errorsOf(known)],
    ["Size of its state", sizeOf(known.state_bytes)],
    // Of what ran before, tenants learn no more than the hour.
    ["Runs since", running.reused ? `the hour from ${hour(known.since)}` : time(known.since)],
    ["Shared", sharedWith(known) || "with nobody"],
    ["Instance", String(running.instance)],
    ...(alike.length > 0 ? [["Runs as one with", named(alike.join(", "))]] : []),
  ]);
}

function errorsOf({ events_dead: dead, events_dead_per_second: rate }) {
  return rate > 0 ? `${count(dead)}, now ${perSecond(rate)}` : count(dead);
}

function configOf(config) {
  const entries = Object.entries(config);
  return [
    element("h3", {}, "Configuration"),
    entries.length === 0 ? element("p", { class: "faint" }, "All defaults.")
      : facts(entries.map(([name, value]) => [
        element("code", {}, name), element("code", { class: "flow-value" }, typeof value === "string" ? value : JSON.stringify(value)),
      ])),
  ];
}

function touches({ scope }, dataflow, task) {
  return (scope?.tasks ?? []).some((change) => change.dataflow === dataflow && change.task === task);
}

function pastOf(reconfigurations) {
  return [
    element("h3", {}, "Its changes"),
    reconfigurations.length === 0 ? element("p", { class: "faint" }, "It was not changed while it ran.")
      : element("ul", { class: "plain" }, reconfigurations.map((one) => element("li", {},
        badge(one.state), ` ${one.id}, ${time(one.begun)}, by `, named(one.who)))),
  ];
}
