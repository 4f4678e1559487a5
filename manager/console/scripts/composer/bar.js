/** The bar above the canvas: the document's name, how it begins, drafts and templates, undo and redo. */

import { element, field, replace } from "../dom.js";
import { time } from "../format.js";
import { smallButton } from "../forms.js";

const STARTS = [["latest", "from now on"], ["earliest", "from the earliest events that are kept"]];

/**
 * The bar.
 * @param {object} options `isOperator` and `isReplacement`
 * @param {object} on `name(text)`, `query()` after another tenant or start, `open(text)` of a file, `draft(draft)`,
 *   `forget(draft)`, `template(template)`, `fresh()`, and those of the buttons: `undo`, `redo`, `arrange`, `fit`,
 *   `closer` and `farther`
 */
export function bar({ isOperator, isReplacement }, on) {
  const name = element("input", { autocomplete: "off", maxlength: 200 });
  const tenant = isOperator && !isReplacement
    ? element("input", { name: "tenant", autocomplete: "off", required: true, maxlength: 63 }) : null;
  const start = isReplacement ? null : element("select", { name: "start" }, STARTS.map(([value, words]) => element("option", { value }, words)));
  const file = element("input", { type: "file", name: "file", accept: ".json,application/json" });
  const begin = element("select", {});
  const drafts = element("div", {});
  const [undo, redo] = [smallButton("Undo", on.undo), smallButton("Redo", on.redo)];
  let offered = [];

  name.addEventListener("input", () => on.name(name.value));
  tenant?.addEventListener("input", on.query);
  start?.addEventListener("change", on.query);
  file.addEventListener("change", async function readFile() {
    const [chosen] = file.files;
    if (chosen) {
      on.open(await chosen.text());
      file.value = "";
    }
  });
  begin.addEventListener("change", function open() {
    const chosen = offered[Number(begin.value)];
    begin.value = "";
    if (chosen) {
      on.template(chosen);
    }
  });

  const node = element("div", { class: "composer-bar" },
    element("div", { class: "toolbar" }, field("Name of the dataflow", name), tenant && field("Tenant", tenant), start && field("Start", start)),
    element("details", {}, element("summary", {}, "Begin with a template, a draft or a file"),
      element("div", { class: "toolbar" },
        field("Template", begin), field("From a file", file), smallButton("Begin anew", on.fresh)), drafts));
  const tools = element("div", { class: "toolbar", role: "toolbar", "aria-label": "Canvas" },
    undo, redo, smallButton("Lay out", on.arrange), smallButton("Show all", on.fit), smallButton("Closer", on.closer), smallButton("Farther", on.farther));

  return {
    node, tools,
    get query() {
      return { tenant: tenant?.value.trim(), start: start?.value };
    },
    get needsTenant() { return tenant !== null && tenant.value.trim() === ""; },
    /** Bring it up to date with a composition. */
    show({ document: drawn, canUndo, canRedo }) {
      if (name.value !== drawn.name) {
        name.value = drawn.name;
      }
      [undo.disabled, redo.disabled] = [!canUndo, !canRedo];
    },
    /** Offer templates. */
    offer(templates) {
      offered = templates;
      replace(begin, element("option", { value: "" }, "Choose…"), templates.map((each, at) => element("option", { value: at }, each.name)));
    },
    /** Show the drafts. */
    list(kept) {
      replace(drafts, kept.length === 0 ? element("p", { class: "faint" }, "Drafts are kept in this browser by name while you compose.")
        : element("ul", { class: "plain", "aria-label": "Drafts in this browser" }, kept.map((draft) => element("li", {},
          smallButton(draft.name, () => on.draft(draft)), ` ${time(draft.saved)} `,
          smallButton("Forget", () => on.forget(draft), `Forget the draft ${draft.name}`)))));
    },
  };
}
