/** The task library: all types by family, searchable, each with its sentence, its ports and the fields of its config. */

import { api } from "../api.js";
import { element, prose, replace, table } from "../dom.js";
import { counted } from "../format.js";

export const title = "Task types";

/** Show the page. */
export async function show(main, { signal, say }) {
  const types = await api.pages("/v1/task-types", { signal });
  const search = element("input", { type: "search", placeholder: "Search", "aria-label": "Search the task types", autocomplete: "off", on: { input: list } });
  const place = element("div", {});

  function list() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fitting = types.filter((type) => words.every((word) => textOf(type).includes(word)));
    const families = grouped(fitting);
    const begins = (members) => members.some((type) => type.inputs?.length === 0);
    replace(place, fitting.length === 0 ? element("p", { class: "empty" }, "No task type has these words.")
      : [...families].sort(([, one], [, other]) => begins(other) - begins(one)).map(([family, members]) => element("section", {},
        element("h2", {}, family || "Other"), members.map(shownType))));
    say(counted(fitting.length, "task type"));
  }

  replace(main, element("h1", {}, title),
    element("p", {}, "What dataflows are made of. A task takes events, does one thing, and passes events on."),
    element("div", { class: "toolbar" }, element("div", { class: "field" }, search),
      element("a", { class: "button", href: "#/compose" }, "Compose a dataflow")),
    place);
  list();
}

function grouped(types) {
  const families = new Map();
  types.forEach((type) => families.set(type.family, [...(families.get(type.family) ?? []), type]));
  return families;
}

function textOf({ name, family, summary }) {
  return `${name} ${family} ${summary}`.toLowerCase();
}

function shownType(type) {
  const body = element("div", {});

  function open() {
    if (body.childElementCount === 0) {
      replace(body, detailsOf(type));
    }
  }

  return element("details", { class: "task-type", on: { toggle: open } },
    element("summary", {}, element("code", {}, type.name), " ", element("span", { class: "faint" }, prose(type.summary))), body);
}

function detailsOf({ name, version, inputs, outputs, state, config }) {
  const required = config.required ?? [];
  return [
    element("dl", { class: "facts" },
      fact("Takes events at", ports(inputs)), fact("Passes events on at", ports(outputs)),
      fact("State", state), fact("Version", String(version))),
    table([
      { title: "Field", cell: ([field]) => element("code", {}, field) },
      { title: "Type", cell: ([, about]) => typeOf(about, config) },
      { title: "Default", cell: ([field, about]) => (required.includes(field) ? "needed" : valueOf(about.default)) },
      { title: "Meaning", cell: ([, about]) => element("div", { class: "wide" }, prose(about.description ?? "")) },
    ], Object.entries(config.properties ?? {}), { caption: `Settings of ${name}`, empty: "It has no settings." }),
    element("a", { class: "button small", href: `#/compose?${new URLSearchParams({ type: name })}` }, "Compose with it"),
  ];
}

function fact(word, value) {
  return [element("dt", {}, word), element("dd", {}, value)];
}

function ports(names) {
  return names === null ? "ports that its config names" : names.length === 0 ? "none" : names.join(", ");
}

function valueOf(value) {
  return value === undefined || value === null ? "–" : element("code", {}, JSON.stringify(value));
}

/** The type of a field of a config, in words. */
function typeOf(about, schema) {
  if (about.$ref) {
    return typeOf(schema.$defs?.[about.$ref.split("/").at(-1)] ?? {}, schema);
  }
  const choices = about.enum ?? (about.const === undefined ? null : [about.const]);
  if (choices) {
    return choices.join(", ");
  }
  const options = (about.anyOf ?? about.oneOf ?? []).filter((option) => option.type !== "null");
  if (options.length > 0) {
    return [...new Set(options.map((option) => typeOf(option, schema)))].join(" or ");
  }
  return about.type === "array" ? `list of ${typeOf(about.items ?? {}, schema)}` : about.type ?? "anything";
}
