/** The form in which alternates and streams are chosen by hand, and let go again. */

import { api } from "../../../api.js";
import { element, field, problem, replace } from "../../../dom.js";
import { onlyLooks } from "../../../forms.js";

const FREE = "";
const STREAM = { open: true, closed: false };

/** The form; it is made anew when others have chosen. */
export function choiceForm({ path, signal, say, changed }) {
  const node = element("div", {});
  let shown = "";

  function formOf({ tasks, streams, pinned }) {
    const selects = new Map([
      ...tasks.map(({ task, alternates }) => [task, select(alternates.map((each) => each.name), pinned[task])]),
      ...streams.map(({ stream }) => [stream, select(Object.keys(STREAM), wordOf(pinned[stream]))]),
    ]);
    const isStream = new Set(streams.map((each) => each.stream));
    const result = element("div", {});

    async function send(chosen) {
      try {
        await api.put(`${path}/choice`, { choose: chosen }, { signal });
        replace(result);
        say(Object.keys(chosen).length > 0 ? "Chosen by hand." : "Nothing is chosen by hand.");
        await changed();
      } catch (error) {
        if (!signal.aborted) {
          replace(result, problem(error));
        }
      }
    }

    function choose(event) {
      event.preventDefault();
      const fixed = [...selects].filter(([, { value }]) => value !== FREE);
      return send(Object.fromEntries(fixed.map(([name, { value }]) => [name, isStream.has(name) ? STREAM[value] : value])));
    }

    function letGo() {
      for (const each of selects.values()) {
        each.value = FREE;
      }
      return send({});
    }

    return element("form", { class: "card", "aria-label": "Choose by hand", on: { submit: choose } },
      element("h3", {}, "Choose by hand"),
      element("p", { class: "faint" }, "What is chosen stays, whatever guards, rules and the load say."),
      element("div", { class: "config" }, [...selects].map(([name, control]) => field(name, control))),
      result,
      element("div", { class: "toolbar changing" },
        element("button", { class: "button first", type: "submit" }, "Choose"),
        element("button", { class: "button", type: "button", on: { click: letGo } }, "Let all go")));
  }

  function update(answer) {
    const { tasks, streams, pinned } = answer;
    const names = tasks.flatMap(({ task, alternates }) => [task, ...alternates.map((each) => each.name)])
      .concat(streams.map((each) => each.stream));
    const text = JSON.stringify([names, pinned]);
    if (text !== shown) {
      shown = text;
      replace(node, names.length > 0 ? formOf(answer) : null);
    }
  }

  return { update, node };
}

function select(names, chosen) {
  return element("select", { value: chosen ?? FREE, disabled: onlyLooks() },
    element("option", { value: FREE }, "left to the service"),
    names.map((each) => element("option", { value: each }, each)));
}

function wordOf(isOpen) {
  return Object.keys(STREAM).find((word) => STREAM[word] === isOpen);
}
