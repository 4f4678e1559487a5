/** The change of one task: its type, its config, and whether it begins without state. */

import { configForm, problemOf } from "../../../config-form.js";
import { element, field, named, prose, replace } from "../../../dom.js";
import { patchOf } from "../../../merge-patch.js";

const MOST_SHOWN = 40;

/**
 * The form of a change.
 * @param {object} task the task in the dataflow's document
 * @param {object} type its type
 * @param {object} types those of `taskTypes`
 * @param {object} on `edited()` after each edit, `takenBack()`, and `failed(error)` if a type cannot be loaded
 */
export function taskChange(task, type, types, on) {
  const before = { type: task.type, config: task.config ?? {} };
  const offered = element("datalist", { id: `types-for-${task.id}` },
    types.like(type).map((each) => element("option", { value: each })));
  const name = element("input", { value: task.type, list: offered.id, autocomplete: "off", spellcheck: "false" });
  const about = element("span", { class: "hint" });
  const [wrongType, wrongState] = [element("div", { class: "wrong" }), element("div", { class: "wrong" })];
  const naming = field("Type", name);
  naming.append(about, wrongType);
  const fresh = element("input", { type: "checkbox" });
  const keeping = element("div", { class: "field" },
    element("label", {}, fresh, " Start with fresh state"), wrongState);
  const place = element("div", {});
  const summary = element("span", { class: "faint" });
  const node = element("details", { class: "card change", open: true },
    element("summary", {}, element("h3", {}, named(task.id)), " ", summary),
    naming, offered, place, keeping,
    element("button", {
      class: "button small", type: "button", "aria-label": `Revert the change of ${task.id}`, on: { click: on.takenBack },
    }, "Revert"));
  let form = null;
  let renaming = Promise.resolve();

  /** Make the form anew for a type; what was edited stays, as far as the type has such a field. */
  function setType(found) {
    const config = form === null ? before.config : form.edited().config;
    const isOpen = found.config.additionalProperties !== false;
    form = configForm(found.config, form === null || isOpen ? config : only(config, found.config.properties ?? {}));
    replace(place, form.node);
    replace(about, `Version ${found.version}. `, prose(found.summary));
    keeping.hidden = found.state === "none";
    fresh.checked &&= !keeping.hidden;
  }

  function summarise() {
    summary.textContent = inWords(before, edited()) || "unchanged";
  }

  /** The task as it was edited, the merge patch to it, and problems with what was typed. */
  function edited() {
    const { config, problems } = form.edited();
    const after = { type: name.value.trim(), config };
    return { after, patch: patchOf(before, after), isFresh: fresh.checked, problems };
  }

  /** Show problems, `{part, field, message, remedy}`, at their places; returns the first control that has one. */
  function show(problems) {
    const [ofType, ofConfig, ofState] = ["type", "config", "state"].map((part) => problems.filter((each) => each.part === part));
    replace(wrongType, ofType.map(problemOf));
    replace(wrongState, ofState.map(problemOf));
    name.setAttribute("aria-invalid", String(ofType.length > 0));
    fresh.setAttribute("aria-invalid", String(ofState.length > 0));
    keeping.hidden &&= ofState.length === 0;
    node.open ||= problems.length > 0;
    const first = form.show(ofConfig);
    return ofType.length > 0 ? name : first ?? (ofState.length > 0 ? fresh : undefined);
  }

  async function renamed() {
    const wanted = name.value.trim();
    try {
      const found = await types.find(wanted);
      if (found === null) {
        // The service refuses it, and says which names are similar.
        return;
      }
      setType(found);
      summarise();
    } catch (error) {
      on.failed(error);
    }
  }

  node.addEventListener("input", function input() {
    summarise();
    on.edited();
  });
  name.addEventListener("change", function change() {
    renaming = renaming.then(renamed);
  });
  setType(type);
  summarise();
  return {
    node, edited, show,
    /** Wait until the form is that of the chosen type. */
    settled: () => renaming,
    focus: () => (place.querySelector("input, select, textarea") ?? name).focus(),
  };
}

function only(config, properties) {
  return Object.fromEntries(Object.entries(config).filter(([name]) => Object.hasOwn(properties, name)));
}

/** A change in words, such as "window: 5 → 20". */
function inWords(before, { after, patch, isFresh }) {
  const fields = Object.keys(patch.config ?? {}).map(function change(name) {
    return `${name}: ${short(before.config[name])} → ${short(after.config[name])}`;
  });
  return [patch.type ? `type: ${before.type} → ${after.type}` : "", ...fields, isFresh ? "fresh state" : ""]
    .filter((words) => words !== "").join("; ");
}

function short(value) {
  if (value === undefined || value === null) {
    return "default";
  }
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN - 1)}…` : text;
}
