/** What completes the document at a place: names of fields by the JSON Schema, task types, sources, ids, ports, fields. */

/**
 * The completions at a node of the syntax tree, `{from, to, options}`, or null.
 * @param {object} node the innermost node before the place
 * @param {string} text the document
 * @param {object} known `schema` of documents, `types` by name, `sources`, and the `composing` composition
 */
export function completionsAt(node, text, known) {
  const name = nameAround(node);
  if (name !== null) {
    const object = name.parent.parent;
    const taken = membersOf(object, text);
    const options = fieldsOf(schemaAt(object, text, known)).filter(([field]) => !taken.has(field)).map(([field, about]) => ({
      // In quotes, as what is typed is.
      label: JSON.stringify(field), displayLabel: field, apply: JSON.stringify(field) + (name.isLoose ? ": " : ""),
      detail: about.type, info: about.description, type: "property",
    }));
    return { from: name.from, to: name.to, options };
  }
  const value = valueAround(node);
  if (value === null) {
    return null;
  }
  const options = valuesAt(value.place, text, known).map(({ value: offered, note, about }) => ({
    label: JSON.stringify(offered), displayLabel: String(offered), detail: note, info: about, type: "constant",
  }));
  return { from: value.from, to: value.to, options };
}

/** The name of a field at a node: one that is written, or a text in an object that could become one. */
function nameAround(node) {
  const isLoose = node.name === "String" && node.parent?.name === "Object";
  return node.name === "PropertyName" ? node : isLoose ? { ...span(node), isLoose, parent: { parent: node.parent } } : null;
}

/** The value at a node, with the place in the tree that it stands in. */
function valueAround(node) {
  if (node.name === "String" && ["Property", "Array"].includes(node.parent?.name)) {
    return { ...span(node), place: node.parent };
  }
  if (["Property", "Array"].includes(node.name)) {
    return { from: null, to: null, place: node };
  }
  return node.name === "⚠" && node.parent !== null ? valueAround(node.parent) : null;
}

/** The values that can stand at a place: of a field, or among the items of a list. */
function valuesAt(place, text, known) {
  const isItem = place.name === "Array";
  const path = pathOf(place, text);
  const [list, , field, inner] = path;
  const siblings = membersOf(objectAbove(place, list), text);
  const { types, sources, composing } = known;
  if (list === "tasks" && field === "type" && !isItem) {
    return [...types.values()].map((type) => ({ value: type.name, note: type.family, about: type.summary }));
  }
  if (list === "streams" && ["from", "to"].includes(field)) {
    return composing.document.tasks.map((task) => ({ value: task.id, note: task.type }));
  }
  if (list === "streams" && ["from_port", "to_port"].includes(field)) {
    const ports = composing.ports.get(siblings.get(field.replace("_port", "")));
    return (ports?.[field === "from_port" ? "outputs" : "inputs"] ?? []).map((port) => ({ value: port }));
  }
  const about = schemaAt(place, text, known);
  const choices = about?.enum ?? (about?.type === "boolean" ? [true, false] : about?.const === undefined ? [] : [about.const]);
  if (choices.length > 0 || list !== "tasks" || field !== "config") {
    return choices.map((choice) => ({ value: choice }));
  }
  if (inner === "source" && types.get(siblings.get("type"))?.inputs?.length === 0) {
    return sources.map((source) => ({ value: source.name, note: Object.keys(source.schema).sort().join(", ") }));
  }
  return about?.type !== "string" || about.pattern ? [] : arriving(composing.previews.get(siblings.get("id")));
}

function arriving(preview) {
  const fields = Object.assign({}, ...Object.values(preview?.inputs ?? {}).map((port) => port.fields));
  return Object.entries(fields).map(([value, note]) => ({ value, note }));
}

/** The schema of the value at a place: that of a task's config is its type's. */
function schemaAt(place, text, { schema, types }) {
  const path = pathOf(place, text);
  let [about, whole] = [schema, schema];
  path.forEach(function step(part, depth) {
    if (depth === 2 && path[0] === "tasks" && part === "config") {
      const type = membersOf(objectAbove(place, "tasks"), text).get("type");
      about = whole = types.get(type)?.config ?? {};
    } else {
      about = typeof part === "number" ? about?.items ?? about?.additionalProperties : about?.properties?.[part];
    }
    about = resolved(about, whole);
  });
  return place.name === "Array" ? resolved(about?.items, whole) : about;
}

function resolved(about, whole) {
  const pointed = about?.$ref?.startsWith("#/$defs/") ? whole.$defs?.[about.$ref.slice(8)] : about;
  const some = pointed?.anyOf?.find((each) => each.type !== "null");
  return some === undefined ? pointed : { ...pointed, ...resolved(some, whole) };
}

/** The names and places that lead to an object, a list or a field. */
function pathOf(node, text) {
  const path = [];
  for (let at = node; at !== null; at = at.parent) {
    if (at.name === "Property") {
      path.unshift(textOf(at.getChild("PropertyName"), text));
    } else if (at.parent?.name === "Array") {
      path.unshift(placeIn(at));
    }
  }
  return path;
}

/** The task or stream above a node. */
function objectAbove(node, list) {
  let found = null;
  for (let at = node; at !== null; at = at.parent) {
    const isItem = at.name === "Object" && at.parent?.name === "Array";
    found = isItem && (list === "tasks" || list === "streams") ? at : found;
  }
  return found;
}

function membersOf(object, text) {
  const members = (object?.getChildren("Property") ?? []).map(function member(property) {
    const value = property.getChild("String");
    return [textOf(property.getChild("PropertyName"), text), value === null ? undefined : textOf(value, text)];
  });
  return new Map(members);
}

function placeIn(node) {
  let place = 0;
  for (let at = node.prevSibling; at !== null; at = at.prevSibling) {
    place += ["[", "]", ",", "⚠"].includes(at.name) ? 0 : 1;
  }
  return place;
}

function textOf(node, text) {
  try {
    return JSON.parse(text.slice(node.from, node.to));
  } catch {
    return "";
  }
}

function fieldsOf(about) {
  return Object.entries(about?.properties ?? {});
}

function span({ from, to }) {
  return { from, to };
}
