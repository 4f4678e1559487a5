/** The form of a config, made from its JSON Schema. */

import { element, field, prose, replace } from "./dom.js";
import { read } from "./json-positions.js";

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const OTHERS = "Other fields";
/** Texts that may be so long, such as certificates, have lines. */
const LONG = 10_000;
const LIMITS = [
  ["minimum", "at least"], ["exclusiveMinimum", "more than"], ["maximum", "at most"], ["exclusiveMaximum", "less than"],
];
/** For each kind of field its control, the text in it that stands for a value, and the value of a text. */
const KINDS = {
  choice: { control: choice, written: JSON.stringify, value: JSON.parse },
  number: { control: () => element("input", { inputmode: "decimal", autocomplete: "off" }), written: String, value: numberIn },
  text: { control: ({ maxLength = 0 }) => (maxLength < LONG ? line() : lines()), written: String, value: String },
  list: { control: lines, written: (items) => items.join("\n"), value: itemsIn, hint: "One a line." },
  json: { control: lines, written: (value) => JSON.stringify(value, null, 2), value: JSON.parse, hint: "JSON." },
};

/**
 * A form with a control for each field of a config. A field that nobody edits keeps its value exactly; an empty one is
 * left out, and has its default then.
 *
 * @param {object} schema the JSON Schema of the config
 * @param {object} config the present config
 * @param {function} offered the texts that are offered at a field, `{value, note}`, by its name and kind: none by default
 * @returns {{node, edited, show}} `edited()` is `{config, problems}`; `show(problems)` shows problems at their fields,
 *   `{field, at, message, remedy}`, those of no field below, and returns the control of the first
 */
export function configForm(schema, config, offered = () => []) {
  const properties = Object.entries(schema.properties ?? {});
  const rows = properties.map(([name, about]) => rowOf(name, resolved(about, schema), {
    present: config[name], isRequired: schema.required?.includes(name) ?? false, offered,
  }));
  const below = element("div", { class: "wrong" });
  const known = new Set(properties.map(([name]) => name));
  const rest = Object.fromEntries(Object.entries(config).filter(([name]) => !known.has(name)));
  if (schema.additionalProperties !== false || Object.keys(rest).length > 0) {
    rows.push(rowOf(OTHERS, { kind: "json" }, { present: Object.keys(rest).length > 0 ? rest : undefined }));
  }

  function edited() {
    const made = {};
    const problems = [];
    for (const row of rows) {
      const { value, wrong } = row.read();
      if (wrong) {
        problems.push({ field: row.name, message: wrong, remedy: "correct the JSON" });
      } else if (row.name === OTHERS) {
        Object.assign(made, value);
      } else if (value !== undefined) {
        made[row.name] = value;
      }
    }
    return { config: made, problems };
  }

  function show(problems) {
    const names = new Set(rows.map((row) => row.name));
    const whole = problems.filter((each) => !names.has(each.field));
    replace(below, whole.map(problemOf));
    const wrongRows = rows.filter((row) => row.show(problems.filter((each) => each.field === row.name)));
    return (wrongRows[0] ?? (whole.length > 0 ? rows[0] : undefined))?.control;
  }

  return {
    node: element("div", {},
      rows.length > 0 ? element("div", { class: "config" }, rows.map((row) => row.node))
        : element("p", { class: "faint" }, "This type has no settings."),
      below),
    edited,
    show,
  };
}

/** A field with its control, and the place for its problems. */
function rowOf(name, about, { present, isRequired, offered = () => [] }) {
  const { control: made, written, value, hint = "" } = KINDS[about.kind];
  const control = made(about, isRequired);
  const initial = present === undefined || present === null ? "" : written(present);
  control.value = initial;
  // A control may not be able to show a value as it is: an input has no line breaks.
  const shown = control.value;
  const words = [about.description, limits(about), hint, defaultOf(about, isRequired)].filter(Boolean).join(" ");
  const node = field(name, control, words ? prose(words) : "");
  const described = control.getAttribute("aria-describedby") ?? "";
  const offers = ["text", "list"].includes(about.kind) ? offered(name, about) : [];
  if (offers.length > 0) {
    node.append(about.kind === "text" ? suggestions(control, offers) : toggles(name, control, offers));
  }
  const show = wrongAt(node, control, described);

  function readIt() {
    if (control.value === shown) {
      return { value: present };
    }
    if (control.value.trim() === "") {
      return {};
    }
    const error = about.kind === "json" ? read(control.value).error : null;
    return error ? { wrong: `this is not JSON: ${error.message}` } : { value: value(control.value) };
  }

  return { name, node, control, read: readIt, show };
}

/** Have a field show the problems of its control: `show(problems)` returns whether there are any. */
export function wrongAt(node, control, described = control.getAttribute("aria-describedby") ?? "") {
  const wrong = element("div", { class: "wrong", id: `${control.id}-wrong`, hidden: true });
  node.append(wrong);
  return function show(problems) {
    const isWrong = problems.length > 0;
    wrong.hidden = !isWrong;
    replace(wrong, problems.map(problemOf));
    control.setAttribute("aria-invalid", String(isWrong));
    control.setAttribute("aria-describedby", `${described} ${wrong.id}`);
    return isWrong;
  };
}

/** Texts that complete what is typed. */
function suggestions(control, offers) {
  const id = `${control.id}-offers`;
  control.setAttribute("list", id);
  return element("datalist", { id }, offers.map(({ value, note }) => element("option", { value }, note)));
}

/** Buttons that write a line, or take it away. */
function toggles(name, control, offers) {
  return element("div", { class: "offers", role: "group", "aria-label": `Choices for ${name}` }, offers.map(({ value }) =>
    element("button", { class: "button small", type: "button", on: { click: () => toggle(control, value) } }, value)));
}

function toggle(control, line) {
  const lines = itemsIn(control.value);
  control.value = (lines.includes(line) ? lines.filter((each) => each !== line) : [...lines, line]).join("\n");
  control.dispatchEvent(new Event("input", { bubbles: true }));
}

/** A problem as it is shown at a field; `at` is the place within the field's value, and `action` a button that ends it. */
export function problemOf({ at, message, remedy, action = null }) {
  const words = [message, remedy].filter(Boolean).map((each) => `${capitalised(each)}${/[.?!]$/.test(each) ? "" : "."}`);
  return element("p", {}, at ? [element("code", {}, at), ": "] : null, words.join(" "), action === null ? null : [" ", action]);
}

/** What a field takes: its kind, its choices and its limits, whether or not it may be null. */
function resolved(about, schema) {
  const { $ref: reference, ...own } = about;
  if (reference) {
    const found = schema.$defs?.[reference.split("/").at(-1)] ?? {};
    return resolved({ ...found, description: undefined, ...own }, schema);
  }
  const some = about.anyOf?.filter((each) => each.type !== "null");
  if (some?.length === 1) {
    const { anyOf: _, ...others } = about;
    return resolved({ ...some[0], ...others }, schema);
  }
  return { ...about, kind: kindOf(about) };
}

function kindOf({ type, enum: choices, const: only, items }) {
  if (choices || only !== undefined || type === "boolean") {
    return "choice";
  }
  if (type === "integer" || type === "number") {
    return "number";
  }
  if (type === "string") {
    return "text";
  }
  return type === "array" && items?.type === "string" && !items.enum ? "list" : "json";
}

function choice({ enum: choices, const: only, type, default: preset }, isRequired) {
  const values = choices ?? (type === "boolean" ? [true, false] : [only]);
  return element("select", {},
    isRequired ? null : element("option", { value: "" }, preset === undefined || preset === null ? "default" : `default: ${preset}`),
    values.map((each) => element("option", { value: JSON.stringify(each) }, String(each))));
}

function line() {
  return element("input", { autocomplete: "off", spellcheck: "false" });
}

function lines() {
  return element("textarea", { rows: 2, spellcheck: "false" });
}

/** The number in a text. Anything else goes to the service as it is, which refuses it with the reason. */
function numberIn(text) {
  const trimmed = text.trim();
  return NUMBER.test(trimmed) ? Number(trimmed) : trimmed;
}

function itemsIn(text) {
  return text.split("\n").filter((line) => line !== "");
}

function limits(about) {
  const found = LIMITS.filter(([name]) => about[name] !== undefined).map(([name, words]) => `${words} ${about[name]}`);
  return found.length > 0 ? `${capitalised(found.join(", "))}.` : "";
}

function defaultOf(about, isRequired) {
  const hasDefault = !isRequired && about.kind !== "choice" && about.default !== undefined && about.default !== null;
  const text = hasDefault ? JSON.stringify(about.default) : "";
  return text && text.length <= 60 && !["[]", "{}", '""'].includes(text) ? `Default: ${text}.` : "";
}

function capitalised(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
