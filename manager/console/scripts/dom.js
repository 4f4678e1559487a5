/** DOM elements from data. Text always stays text and never becomes markup. */

const SVG = "http://www.w3.org/2000/svg";
const SAFE_LINK = /^(#|\/(?!\/))/;

/**
 * An HTML element with attributes and children.
 *
 * Besides HTML attributes there are `dataset` (an object) and `on` (listeners by event). One that is null, undefined or
 * false is left out; true is set without a value. Children are nodes, text, numbers, and lists of them.
 */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes ?? {}, children);
}

/** An SVG element, with attributes and children as in `element`. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes ?? {}, children);
}

/** Replace all children of a node; returns the node. */
export function replace(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

/**
 * A table that scrolls within itself, from columns `{title, cell(row) -> Node|string, number, changing}` and rows. On a phone each
 * row is a list of its cells with their titles.
 *
 * The first cell of a row is its header. `caption` names the table; `empty` is shown if there are no rows.
 */
export function table(columns, rows, { caption = "", empty = "Nothing here yet." } = {}) {
  if (rows.length === 0) {
    return element("p", { class: "empty" }, empty);
  }
  function headed(column) {
    return element("th", { scope: "col", role: "columnheader", class: lookOf(column) }, column.title);
  }
  function rowOf(row) {
    return element("tr", { role: "row" }, columns.map(function cellOf(column, index) {
      const [tag, role] = index === 0 ? ["th", "rowheader"] : ["td", "cell"];
      const attributes = { role, scope: index === 0 ? "row" : null, class: lookOf(column) };
      return element(tag, { ...attributes, dataset: { title: column.title } }, column.cell(row));
    }));
  }
  // The roles are those that the elements have, but lose where they are not laid out as a table.
  return element("div", { class: "table", role: "region", tabindex: "0", "aria-label": caption || columns[0].title },
    element("table", { role: "table" },
      caption ? element("caption", {}, caption) : null,
      element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, columns.map(headed))),
      element("tbody", { role: "rowgroup" }, rows.map(rowOf))));
}

function lookOf({ number, changing }) {
  return number ? "number" : changing ? "changing" : null;
}

/** A user's text, isolated so that its direction of writing does not affect the text around it. */
export function named(text) {
  return element("bdi", {}, text);
}

/** A sentence of the code or the service, in which names stand between backticks. */
export function prose(text) {
  return text.split("`").map((part, place) => (place % 2 === 1 ? element("code", {}, part) : part));
}

/** A state, as a word and a colour. */
export function badge(state, text = state) {
  return element("span", { class: "badge", dataset: { state } }, text);
}

let fields = 0;

/** A control with its label and an optional hint. */
export function field(label, control, hint = "") {
  fields += 1;
  control.id ||= `field-${fields}`;
  if (hint) {
    control.setAttribute("aria-describedby", `${control.id}-hint`);
  }
  return element("div", { class: "field" },
    element("label", { for: control.id }, label),
    control,
    hint ? element("span", { class: "hint", id: `${control.id}-hint` }, hint) : null);
}

/** An error: the detail or the list of errors of a `Problem`, the message of another error. */
export function problem(error, heading = "h2") {
  const errors = error.errors ?? [];
  return element("div", { class: "problem", role: "alert" },
    element(heading, {}, error.title || "Something went wrong"),
    errors.length > 0 ? null : element("p", {}, error.detail || error.message),
    errors.length > 0 ? element("ul", {}, errors.map(errorItem)) : null);
}

function errorItem(one) {
  const place = one.pointer ? [element("code", {}, one.pointer), ": "] : [];
  return element("li", {}, place, one.message, one.remedy ? element("div", { class: "faint" }, one.remedy) : null);
}

function filled(node, attributes, children) {
  const { on = {}, dataset = {}, value, ...rest } = attributes;
  for (const [name, given] of Object.entries(rest)) {
    set(node, name, given);
  }
  Object.assign(node.dataset, dataset);
  for (const [event, listener] of Object.entries(on)) {
    node.addEventListener(event, listener);
  }
  node.append(...flat(children));
  if (value !== undefined && value !== null) {
    // After the children: a select has no value without its options.
    if ("value" in node) {
      node.value = value;
    } else {
      node.setAttribute("value", value);
    }
  }
  return node;
}

function set(node, name, given) {
  if (given === null || given === undefined || given === false) {
    return;
  }
  if (/^on/i.test(name) || name === "style" || name === "srcdoc") {
    throw new TypeError(`the attribute ${name} is code; use on, or a class`);
  }
  if (name === "href" && !SAFE_LINK.test(given)) {
    throw new TypeError(`${given} is not a link within the console`);
  }
  node.setAttribute(name, given === true ? "" : String(given));
}

function flat(children) {
  return children.flat(Infinity).filter(isThere).map(asNode);
}

function isThere(child) {
  return child !== null && child !== undefined && child !== false;
}

function asNode(child) {
  return child instanceof Node ? child : String(child);
}
