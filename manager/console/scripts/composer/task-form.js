/** The form of the selected task: its id, its config, its source, its streams and its problems. */

import { configForm, problemOf } from "../config-form.js";
import { element, field, named, prose, replace } from "../dom.js";
import { unescaped } from "../json-positions.js";
import { isSame } from "../merge-patch.js";
import { endsOf, openPort, refusal } from "./connecting.js";
import {
  idRefusal, taskOf, withConfig, withField, withId, withoutStream, withoutTasks, workOf,
} from "./document.js";

/**
 * The form. `show` brings it up to date; a control that somebody uses stays.
 * @param {object} composing the composition
 * @param {object} on `connect(stream)`, `removed()`, and `problemsOf(id)`, those of a task with their buttons
 * @param {object} known `typeOf(name)`, and `sources`, those of `GET /v1/sources`
 */
export function taskForm(composing, { typeOf, sources }, on) {
  const node = element("section", { class: "card composer-task", "aria-label": "The selected task" });
  let shown = null;

  function show(state) {
    const [id] = composing.selection.size === 1 ? composing.selection : [null];
    if (id === null) {
      shown = null;
      replace(node, element("p", { class: "faint" }, composing.selection.size > 1
        ? `${composing.selection.size} tasks are selected.` : "Select a task to configure it."));
      return;
    }
    const task = taskOf(composing.document, id);
    const type = typeOf(task.type);
    const arriving = fieldsAt(composing.previews.get(id));
    const key = JSON.stringify([id, task.type, task.alternates, task.point, task.gap, type === undefined, arriving]);
    const isTyped = shown !== null && isSame(shown.form?.edited().config ?? null, task.config ?? {});
    if (shown === null || shown.key !== key || (shown.form !== null && !isTyped)) {
      const focused = node.contains(document.activeElement) ? document.activeElement.id : "";
      shown = { key, ...made(task, type, arriving) };
      if (focused !== "") {
        node.querySelector(`#${CSS.escape(focused)}`)?.focus({ preventScroll: true });
      }
    }
    // What is wrong is shown at its field.
    replace(shown.state, state.kind === "invalid" ? null : state.more);
    shown.state.className = `composer-state ${state.kind}`;
    showProblems(id, shown);
    replace(shown.fields, type?.inputs?.length === 0 ? sourceOf(task) : arrivals(arriving));
    replace(shown.streams, streamsOf(id));
  }

  function made(task, type, arriving) {
    const state = element("p", {});
    const [streams, fields] = [element("div", {}), element("div", {})];
    const wrong = element("div", { class: "wrong" });
    const id = element("input", { id: "composed-id", value: task.id, autocomplete: "off", spellcheck: "false" });
    const wrongId = element("div", { class: "wrong", role: "status" });
    const naming = field("Id", id, type?.outputs?.length === 0 ? "It names the topic of the output." : "");
    naming.append(wrongId);
    id.addEventListener("change", function rename() {
      const wanted = id.value.trim();
      const reason = idRefusal(composing.document, wanted, task.id);
      replace(wrongId, reason);
      id.setAttribute("aria-invalid", String(reason !== ""));
      if (reason === "" && wanted !== task.id) {
        composing.edit(withId(composing.text, task.id, wanted), { renamed: new Map([[task.id, wanted]]) });
      }
    });
    const fresh = element("input", { type: "checkbox", id: "composed-fresh", checked: task.fresh === true });
    fresh.addEventListener("change", function change() {
      composing.edit(withField(composing.text, task.id, "fresh", fresh.checked || undefined));
    });
    const form = type === undefined ? null : configForm(type.config, task.config ?? {}, offering(type, arriving));
    form?.node.addEventListener("input", function edited() {
      const { config, problems } = form.edited();
      if (problems.length === 0) {
        composing.edit(withConfig(composing.text, task.id, config), { group: `config of ${task.id}` });
      }
    });
    replace(node,
      element("h2", {}, named(task.id), " ", element("code", { class: "faint" }, workOf(task))),
      type === undefined ? chosenLater(task) : element("p", {}, prose(type.summary)),
      state, wrong, naming, form?.node, fields,
      element("div", { class: "field" }, element("label", {}, fresh, " Start it and all below anew, instead of sharing")),
      streams,
      element("button", { class: "button small danger", type: "button", on: { click: () => removeTask(task.id) } }, "Remove the task"));
    form?.node.querySelectorAll("input, select, textarea").forEach((control, at) => (control.id = idOf(control, at)));
    return { form, state, streams, fields, wrong };
  }

  /** An id that stays the same when the form is drawn again, for the focus; labels and hints follow it. */
  function idOf(control, at) {
    const wanted = `composed-config-${at}`;
    for (const [attribute, suffix] of [["for", ""], ["id", "-hint"], ["id", "-wrong"], ["id", "-offers"]]) {
      node.querySelector(`[${attribute}="${control.id}${suffix}"]`)?.setAttribute(attribute, `${wanted}${suffix}`);
    }
    const described = control.getAttribute("aria-describedby");
    if (described) {
      control.setAttribute("aria-describedby", described.replaceAll(control.id, wanted));
    }
    if (control.hasAttribute("list")) {
      control.setAttribute("list", `${wanted}-offers`);
    }
    return wanted;
  }

  /** What is offered in the form: sources, and the fields that arrive. */
  function offering(type, arriving) {
    return function offered(name, about) {
      if (type.inputs?.length === 0 && name === "source") {
        return sources.map((source) => ({ value: source.name, note: Object.keys(source.schema).sort().join(", ") }));
      }
      return about.pattern ? [] : Object.entries(arriving ?? {}).map(([value, note]) => ({ value, note }));
    };
  }

  function sourceOf(task) {
    const source = sources.find((each) => each.name === task.config?.source);
    return source === undefined ? null : fieldList("Its events have", source.schema);
  }

  function showProblems(id, { form, wrong }) {
    const problems = on.problemsOf(id).map(function place(problem) {
      const [, , , part, name, ...inner] = problem.pointer.split("/").map(unescaped);
      return { ...problem, field: part === "config" ? name : undefined, at: inner.join("/") };
    });
    form?.show(problems.filter((each) => each.field !== undefined));
    replace(wrong, problems.filter((each) => form === null || each.field === undefined).map(problemOf));
  }

  function streamsOf(id) {
    const { document: drawn, ports } = composing;
    const near = drawn.streams.filter((each) => each.from === id || each.to === id);
    return [
      element("h3", {}, "Streams"),
      near.length === 0 ? element("p", { class: "faint" }, "None yet.") : element("ul", { class: "plain" }, near.map((each) => lineOf(each, id))),
      connecting(id, drawn, ports),
    ];
  }

  function lineOf(stream, id) {
    const { left, right } = endsOf(stream, composing.ports);
    const isOut = stream.from === id;
    const words = isOut ? `to ${stream.to}, port ${right ?? "?"}` : `from ${stream.from}, port ${left ?? "?"}`;
    return element("li", {}, `${isOut ? "→" : "←"} ${words} `, element("button", {
      class: "button small", type: "button", "aria-label": `Remove the stream ${words}`,
      on: { click: () => composing.edit(withoutStream(composing.text, stream.at)) },
    }, "Remove"));
  }

  function connecting(id, drawn, ports) {
    const outputs = ports.get(id)?.outputs ?? [];
    const targets = drawn.tasks.filter((task) => task.id !== id && ports.get(task.id)?.inputs?.length !== 0);
    if (outputs.length === 0 || targets.length === 0) {
      return null;
    }
    const from = element("select", { "aria-label": "Output port" }, outputs.map((port) => element("option", {}, port)));
    const to = element("select", { id: "composed-target", "aria-label": "Lead a stream to" }, targets.flatMap((task) =>
      (ports.get(task.id)?.inputs ?? ["in"]).map((port) => element("option", {
        value: JSON.stringify([task.id, port]),
      }, (ports.get(task.id)?.inputs ?? []).length > 1 ? `${task.id}, port ${port}` : task.id))));
    // First where it may lead.
    const reason = ({ id: target }) => refusal(drawn, {
      from: id, from_port: outputs[0], to: target, to_port: openPort(drawn, target, ports),
    }, ports, composing.previews);
    const first = targets.find((target) => reason(target) === "") ?? targets[0];
    to.value = JSON.stringify([first.id, openPort(drawn, first.id, ports) ?? "in"]);
    return element("div", { class: "toolbar" }, outputs.length > 1 ? from : null, to, element("button", {
      class: "button small", type: "button",
      on: { click: function connect() {
        const [target, port] = JSON.parse(to.value);
        on.connect({ from: id, from_port: from.value || outputs[0], to: target, to_port: port });
      } },
    }, "Connect"));
  }

  function removeTask(id) {
    composing.edit(withoutTasks(composing.text, new Set([id])));
    on.removed();
  }

  /** Go to the first field that needs something, else to the first. */
  function focus() {
    const first = ['[aria-invalid="true"]', ".config :is(input, select, textarea)", "input"]
      .map((selector) => node.querySelector(selector)).find((control) => control !== null);
    first?.focus();
  }

  return { node, show, focus };
}

/** The fields that arrive at a task, by name, over all its input ports; null if none are known. */
function fieldsAt(preview) {
  const known = Object.values(preview?.inputs ?? {}).map((port) => port.fields).filter(Boolean);
  return known.length === 0 ? null : Object.assign({}, ...known);
}

function arrivals(fields) {
  return fields === null ? null : fieldList("Events arrive with", fields);
}

function fieldList(words, fields) {
  const names = Object.entries(fields).sort();
  return element("p", { class: "faint" }, `${words} `, names.length === 0 ? "no fields." : names.map(([name, kind], at) => [
    at > 0 ? ", " : "", element("code", {}, name), ` (${kind})`,
  ]), names.length === 0 ? null : ".");
}

/** What a task without a form may become; that is edited as JSON. */
function chosenLater({ type, alternates, first, point, gap }) {
  if (Array.isArray(alternates)) {
    const rows = alternates.map((alternate) => [
      element("dt", {}, named(String(alternate?.name)), alternate?.name === first ? " (first)" : ""),
      element("dd", {}, element("code", {}, String(alternate?.type ?? alternate?.module)), `, value ${figure(alternate?.value)}, cost ${figure(alternate?.cost)}`),
    ]);
    return [
      element("p", {}, "One of these runs; which one, load, time and events decide. Edit them as JSON."),
      element("dl", { class: "facts" }, rows),
    ];
  }
  const words = point ? "Planning chooses the module that stands here, by the goals." : "Planning fills this place with a chain of modules, by the goals.";
  const unknown = type === undefined ? "It has no type yet." : "The form of this type is not known.";
  return element("p", {}, point || gap ? words : unknown, " Edit it as JSON.");
}

function figure(value) {
  return typeof value === "object" && value !== null ? "by a guard" : String(value ?? "unknown");
}
