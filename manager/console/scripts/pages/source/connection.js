/** The form of a source's connection, made from the JSON Schema of sources: what to reach, and in which format. */

import { configForm, wrongAt } from "../../config-form.js";
import { element, field, prose, replace } from "../../dom.js";
import { unescaped } from "../../json-positions.js";
import { aboutOf } from "./kinds.js";

const FORMATS = {
  json: "JSON", jsonl: "JSON lines", csv: "CSV", senml: "SenML", msgpack: "MessagePack", avro: "Avro",
  protobuf: "Protocol Buffers", sparkplug: "Sparkplug B", text: "Text, such as a number alone", raw: "Bytes", parquet: "Parquet",
};
/** Fields of a connection that are not part of the form of its own settings. */
const APART = ["kind", "format", "secret"];

/**
 * The form of a kind of source.
 *
 * @param {object} schema the JSON Schema of sources
 * @param {object} chosen the kind, `{kind, hints}` of `kinds.js`
 * @param {string[]} secrets the names of the owner's secrets
 * @param {object} filled settings that it begins with
 * @returns {{node, edited, show, messages}} `edited()` is `{connection, problems}`; `show(errors)` shows errors of REST at
 *   their fields, and returns the others; `messages` has the value of the format and sets it
 */
export function connectionForm(schema, { kind, hints }, secrets, filled = {}) {
  const about = aboutOf(schema, kind);
  const hidden = kind === "http" ? [...APART, "topic", "retained"] : APART;
  const own = Object.entries(about.properties).filter(([name]) => !hidden.includes(name))
    .map(([name, property]) => [name, hints[name] ? { ...property, description: hints[name] } : property]);
  const settings = configForm({ ...without(about, hidden), properties: Object.fromEntries(own), $defs: schema.$defs }, filled);
  const messages = about.properties.format === undefined ? null : formatForm(schema, about.properties.format);
  const secret = about.properties.secret === undefined ? null : secretField(about.properties.secret, secrets);

  function edited() {
    const { config, problems } = settings.edited();
    const connection = { kind: about.properties.kind.const, ...filled, ...config, ...messages?.value(), ...secret?.value() };
    return { connection, problems };
  }

  function show(errors) {
    const [mine, others] = [[], []];
    for (const error of errors) {
      const [, part, ...path] = error.pointer.split("/").map(unescaped);
      // The validation of forms names the kind, too.
      const [name, ...at] = path.length > 1 && path[0] === about.properties.kind.const ? path.slice(1) : path;
      (part === "connection" ? mine : others).push({ ...error, field: name, at: at.join("/") });
    }
    messages?.show(mine.filter((each) => each.field === "format"));
    secret?.show(mine.filter((each) => each.field === "secret"));
    settings.show(mine.filter((each) => !APART.includes(each.field)));
    return others;
  }

  const isEmpty = own.length === 0 && !messages && !secret;
  return {
    node: isEmpty ? element("p", { class: "faint" }, "This kind has no settings.")
      : element("div", {}, own.length > 0 ? settings.node : null, messages?.node, secret?.node),
    edited, show, messages,
  };
}

function without(about, hidden) {
  return { ...about, required: (about.required ?? []).filter((name) => !hidden.includes(name)), additionalProperties: false };
}

/** The format of messages, with the settings of the chosen one. */
function formatForm(schema, property) {
  const options = property.anyOf.filter((option) => option.$ref).map((option) => schema.$defs[option.$ref.split("/").at(-1)]);
  const known = new Map(options.map((option) => [option.properties.kind.const, option]));
  const select = element("select", { on: { change: choose } },
    property.default === null ? element("option", { value: "" }, "By the endings of names") : null,
    [...known.keys()].map((kind) => element("option", { value: kind }, FORMATS[kind] ?? kind)));
  const about = element("span", { class: "hint" });
  const [node, more] = [field("Format", select), element("div", {})];
  node.append(about);
  const show = wrongAt(node, select);
  let settings = null;

  function choose() {
    fill({});
  }

  function fill(config) {
    const option = known.get(select.value);
    replace(about, prose(option?.description ?? property.description ?? ""));
    const { kind: _, ...rest } = option?.properties ?? {};
    settings = Object.keys(rest).length > 0 ? configForm({ ...without(option, ["kind"]), properties: rest, $defs: schema.$defs }, config) : null;
    replace(more, settings?.node);
  }

  function value() {
    const config = settings?.edited().config ?? {};
    if (select.value === "") {
      return {};
    }
    return { format: Object.keys(config).length > 0 ? { kind: select.value, ...config } : select.value };
  }

  /** Set it to a format of REST. */
  function set({ kind, ...config }) {
    select.value = kind;
    fill(Object.fromEntries(Object.entries(config).filter(([, each]) => each !== null)));
  }

  function showAll(problems) {
    // The pointer of a problem within a format may name its kind.
    const placed = problems.map((each) => ({ ...each, path: (each.at ?? "").split("/").filter((word) => word !== "" && word !== select.value) }));
    const inner = placed.filter((each) => settings !== null && each.path.length > 0);
    show(placed.filter((each) => !inner.includes(each)).map(({ message, remedy }) => ({ message, remedy })));
    settings?.show(inner.map((each) => ({ ...each, field: each.path[0], at: each.path.slice(1).join("/") })));
  }

  fill({});
  return { node: element("div", {}, node, more), value, set, show: showAll };
}

function secretField({ description }, secrets) {
  const select = element("select", {}, element("option", { value: "" }, "none"),
    secrets.map((name) => element("option", { value: name }, name)));
  const node = field("Secret", select, prose(description ?? "A secret with the login."));
  node.append(element("a", { href: "#/access" }, "Keep a secret on the page Access"));
  return { node, show: wrongAt(node, select), value: () => (select.value === "" ? {} : { secret: { secret: select.value } }) };
}
