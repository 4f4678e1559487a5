/** The removal of a dataflow, after a preview of what stops. */

import { api } from "../../api.js";
import { element, named, problem, replace } from "../../dom.js";
import { counted } from "../../format.js";
import { confirmed } from "../../forms.js";
import { refresh } from "../../refresh.js";

/** The button that removes, and the place for errors. */
export function removal({ path, signal, say, changed }) {
  const wrong = element("div", {});
  const button = element("button", { class: "button danger changing", type: "button", on: { click: remove } }, "Remove…");
  const buttons = element("div", {});
  let shown = "";
  let busy = false;

  async function remove() {
    // A disabled button would lose the focus.
    if (busy) {
      return;
    }
    replace(wrong);
    try {
      if (await removed()) {
        // No longer busy: the new state may be removed again, even while other parts of the page are loading.
        await changed();
      }
    } catch (error) {
      if (!signal.aborted) {
        replace(wrong, problem(error));
      }
    }
  }

  /** Ask for confirmation and remove; returns whether it was removed. */
  async function removed() {
    busy = true;
    try {
      const preview = await api.get(`${path}/removal`, { signal });
      const how = choices();
      const body = element("div", {}, previewOf(preview), how);
      if (!(await confirmed({ title: "Remove this dataflow?", body, action: "Remove", signal }))) {
        return false;
      }
      const stop = how.querySelector("input:checked").value;
      const answer = await api.remove(path, { query: { stop }, signal });
      say(answer.state === "removed" ? "Removed." : "Draining; it is removed afterwards.");
      return true;
    } finally {
      busy = false;
    }
  }

  function update({ state }) {
    if (state !== shown) {
      shown = state;
      refresh(buttons, state === "removed" ? null : button);
    }
  }

  return { update, buttons, node: wrong };
}

/** The effects of a removal. */
function previewOf({ stops, goes_on: goesOn, streams }) {
  const stop = `${counted(stops.length, "task")} ${stops.length === 1 ? "stops" : "stop"}:`;
  const rest = `${counted(goesOn, "task")} ${goesOn === 1 ? "keeps" : "keep"} running for others.`;
  return element("div", { class: "preview" },
    stops.length === 0 ? element("p", {}, "No task stops.") : [
      element("p", {}, stop),
      element("ul", {}, stops.map((task) => element("li", {}, named(task.id), " ", element("code", {}, task.type)))),
    ],
    goesOn > 0 ? element("p", {}, rest) : null,
    streams.length === 0 ? null : [
      element("p", {}, "Streams no longer forwarded between jobs:"),
      element("ul", {}, streams.map((stream) => element("li", {}, named(stream.task), ", ", element("code", {}, stream.port)))),
    ]);
}

function choices() {
  function choice(value, words, checked) {
    return element("label", {}, element("input", { type: "radio", name: "stop", value, checked }), ` ${words}`);
  }
  return element("fieldset", { class: "choices" },
    element("legend", {}, "When"),
    choice("now", "Now", true),
    choice("drain", "After processing what its sources have sent so far", false));
}
