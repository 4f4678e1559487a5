/** Removes a dataflow, after it was shown what stops. */

import { api } from "../../api.js";
import { element, named, problem, replace } from "../../dom.js";
import { count } from "../../format.js";
import { refresh } from "../../refreshing.js";
import { confirmed } from "./confirming.js";

/** The button that removes, and what is said where that is refused. */
export function removing({ path, signal, say, changed }) {
  const wrong = element("div", {});
  const button = element("button", { class: "button danger", type: "button", on: { click: remove } }, "Remove…");
  const buttons = element("div", {});
  let shown = "";
  let busy = false;

  async function remove() {
    // Not disabled meanwhile: it would lose the focus.
    if (busy) {
      return;
    }
    replace(wrong);
    try {
      if (await removed()) {
        // Busy no longer: whoever sees how it stands now may ask again, whatever of the page is still to come.
        await changed();
      }
    } catch (error) {
      if (!signal.aborted) {
        replace(wrong, problem(error));
      }
    }
  }

  /** Ask, and remove it where that was chosen; whether it was. */
  async function removed() {
    busy = true;
    try {
      const preview = await api.get(`${path}/removal`, { signal });
      const how = choices();
      const body = element("div", {}, foretold(preview), how);
      if (!(await confirmed({ title: "Remove this dataflow?", body, action: "Remove", signal }))) {
        return false;
      }
      const stop = how.querySelector("input:checked").value;
      const answer = await api.remove(path, { query: { stop }, signal });
      say(answer.state === "removed" ? "It was removed." : "It drains, and is removed after that.");
      return true;
    } finally {
      busy = false;
    }
  }

  function tell({ state }) {
    if (state !== shown) {
      shown = state;
      refresh(buttons, state === "removed" ? null : button);
    }
  }

  return { tell, buttons, node: wrong };
}

/** What a removal would do, in words. */
export function foretold({ stops, goes_on: goesOn, streams }) {
  const stop = stops.length === 1 ? "One task stops:" : `${count(stops.length)} tasks stop:`;
  const rest = goesOn === 1 ? "One goes on, because others need it." : `${count(goesOn)} go on, because others need them.`;
  return element("div", { class: "foretold" },
    stops.length === 0 ? element("p", {}, "None of its tasks stops.") : [
      element("p", {}, stop),
      element("ul", {}, stops.map((task) => element("li", {}, named(task.id), " ", element("code", {}, task.type)))),
    ],
    goesOn > 0 ? element("p", {}, rest) : null,
    streams.length === 0 ? null : [
      element("p", {}, "Streams that are not forwarded between jobs any more:"),
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
    choice("drain", "After what its sources have sent by now", false));
}
