/** The reconfiguration of a running dataflow: tasks are changed, previewed and switched, watched and undone. */

import { api } from "../../api.js";
import { element, problem, replace } from "../../dom.js";
import { taskChanges } from "./reconfiguration/changes.js";
import { scopeOf, showPreview } from "./reconfiguration/preview.js";
import { placed } from "./reconfiguration/problems.js";
import { watch } from "./reconfiguration/watch.js";

const NOTHING = "Nothing is changed yet. Edit a config or choose another type.";
const IMPOSSIBLE = "These changes are not possible. Each problem is shown at its field, or here.";

/**
 * The changes of a dataflow with their preview, and its reconfigurations.
 * @param {object} about that of the page; `types` are those of `taskTypes`, `begun()` is called when a change begins, and
 *   `takenBack(id)` when the change of a task is reverted
 * @returns {{update, look, node, past, action, items}} `action(task)` is the button that changes a task
 */
export function reconfiguration({ path, isOperator, signal, say, changed, types, begun, takenBack }) {
  const route = `${path}/reconfigurations`;
  const [result, wrong] = [element("div", {}), element("div", {})];
  const changes = taskChanges(types, isOperator, { edited, preview, takenBack: reverted, failed });
  const watching = watch(route, { signal, say }, { undo, cancel, failed, ended: changed });
  let current = null;
  let edits = 0;
  let busy = false;

  /** What was previewed is not what would be done any more. */
  function edited() {
    edits += 1;
    replace(result);
  }

  function reverted(id) {
    say(`The change of ${id} is reverted.`);
    takenBack(id);
  }

  function open(id) {
    return tried(async function add() {
      await changes.begin(id, current.document);
      begun();
      changes.focus(id);
    });
  }

  async function preview(event) {
    event.preventDefault();
    const { problems, ...form } = await changes.wanted();
    if (problems.length > 0) {
      show(problems);
    } else if (Object.keys(form.tasks).length === 0) {
      replace(result, element("div", { class: "problem", role: "alert" }, element("p", {}, NOTHING)));
    } else {
      await ask(route, form, { heading: "Preview", words: "Apply" });
    }
  }

  function undo({ id }) {
    return ask(`${route}/${id}/undo`, undefined, { heading: `Preview: undo reconfiguration ${id}`, words: "Undo" });
  }

  /** Preview what a request would do, and offer to send it. */
  function ask(to, body, { heading, words }) {
    return tried(async function look() {
      const asked = edits;
      const [answer] = await Promise.all([api.post(to, body, { query: { dry_run: true }, signal }), types.load()]);
      if (asked !== edits) {
        return;
      }
      changes.show([]);
      const title = element("h3", { id: "reconfiguration-preview", tabindex: "-1" }, heading);
      showPreview(result, title, scopeOf(answer, current, types), words, (key) => apply(to, body, key));
    });
  }

  function apply(to, body, key) {
    return tried(async function begin() {
      // A disabled button would lose the focus.
      if (busy) {
        return;
      }
      busy = true;
      try {
        const begun = await api.post(to, body, { headers: { "Idempotency-Key": key }, signal });
        if (body !== undefined) {
          changes.clear();
        }
        edited();
        watching.show(begun);
        watching.now.querySelector("h3").focus();
      } finally {
        busy = false;
      }
      await changed();
    });
  }

  function cancel({ id }) {
    return tried(async function withdraw() {
      watching.show(await api.remove(`${route}/${id}`, { signal }));
      await changed();
    });
  }

  async function tried(act) {
    replace(wrong);
    try {
      await act();
    } catch (error) {
      await failed(error);
    }
  }

  async function failed(error) {
    if (signal.aborted || error.status === 401) {
      return;
    }
    const problems = placed(error.errors ?? [], current.document);
    if (changes.isEmpty() || problems.length === 0) {
      replace(wrong, problem(error));
      return;
    }
    try {
      // The change of one task may be a problem of another, which is then to change too.
      for (const id of new Set(problems.map((each) => each.task))) {
        if (id !== undefined && !changes.has(id)) {
          await changes.begin(id, current.document);
        }
      }
    } catch (another) {
      replace(wrong, problem(another));
    }
    show(problems);
  }

  function show(problems) {
    const others = changes.show(problems);
    replace(result, element("div", { class: "problem", role: "alert" }, element("p", {}, IMPOSSIBLE), others));
  }

  function update(dataflow) {
    if (dataflow.revision !== current?.revision) {
      edited();
    }
    current = dataflow;
    watching.update(dataflow);
    if (!isChangeable(dataflow)) {
      changes.clear();
      edited();
    }
  }

  function action({ id }) {
    return element("button", {
      class: "button changing", type: "button", dataset: { changes: id }, "aria-label": `Change ${id}`, on: { click: () => open(id) },
    }, "Change…");
  }

  return {
    update, look: watching.look, action, items: watching.items,
    node: [watching.now, changes.node, wrong, result],
    past: element("section", {}, element("h2", {}, "Reconfigurations"), watching.list),
  };
}

/** Whether tasks of a dataflow can be changed. */
export function isChangeable({ state }) {
  return !["draining", "removed"].includes(state);
}
