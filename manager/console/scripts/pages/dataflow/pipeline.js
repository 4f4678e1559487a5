/** The open places of a dataflow that was planned: what fills them, and a form that plans them again with other goals. */

import { api } from "../../api.js";
import { element, field, named, problem, replace, table } from "../../dom.js";
import { onlyLooks } from "../../forms.js";
import { refresh } from "../../refresh.js";

const NOTHING = "nothing";
/** How a new plan takes effect, by the names in REST. */
const HOW = {
  nothing: "Nothing changes.",
  reconfiguration: "It takes effect as one reconfiguration. Tasks keep their states.",
  replacement: "It takes effect as a new document. Tasks below what changes start without state.",
};

/** The module at each place of a pipeline whose document runs. */
export function fillings({ pipeline, document }) {
  const modules = new Map(document.tasks.map((task) => [task.id, task.module ?? NOTHING]));
  return placesOf(pipeline).map((id) => ({ id, module: modules.get(id) ?? NOTHING }));
}

/** The ids of a pipeline's places; each gap has as many as it may hold modules. */
export function placesOf(pipeline) {
  return pipeline.tasks.flatMap(function places(entry) {
    if (entry.gap) {
      return Array.from({ length: entry.gap.most }, (_, at) => `${entry.id}.${at + 1}`);
    }
    return entry.point ? [entry.id] : [];
  });
}

/** The section about the places; it is empty for a dataflow that was not planned. */
export function pipeline({ path, signal, say, changed }) {
  const places = element("div", {});
  const planning = element("div", {});
  const node = element("div", {});
  let current;
  let shown = "";

  function formOf() {
    const goals = element("textarea", {
      rows: 6, spellcheck: "false", readonly: onlyLooks(), value: JSON.stringify(current.pipeline.goals ?? [], null, 2),
    });
    const result = element("div", { role: "status" });
    const applying = element("button", {
      class: "button first", type: "button", disabled: true, on: { click: () => ask(false) },
    }, "Apply");

    async function ask(isPreview) {
      const text = goals.value;
      applying.disabled = true;
      try {
        const body = { pipeline: { ...current.pipeline, goals: JSON.parse(text) } };
        const answer = await api.post(`${path}/replan`, body, { query: { dry_run: isPreview }, signal });
        if (isPreview) {
          replace(result, previewed(answer));
          applying.disabled = goals.value !== text;
          return;
        }
        say(howOf(answer));
        replace(result);
        await changed();
      } catch (error) {
        if (!signal.aborted) {
          replace(result, problem(error));
        }
      }
    }

    goals.addEventListener("input", function edited() {
      // The preview is of other goals.
      applying.disabled = true;
      replace(result);
    });
    return element("form", { class: "card", on: { submit: preview } },
      field("Goals", goals, "With the modules that there are now. Without a plan everything stays as it is."),
      result,
      element("div", { class: "toolbar changing" }, element("button", { class: "button", type: "submit" }, "Preview the plan"), applying));

    function preview(event) {
      event.preventDefault();
      return ask(true);
    }
  }

  function update(dataflow) {
    current = dataflow;
    if (!dataflow.pipeline) {
      replace(node);
      shown = "";
      return;
    }
    refresh(places, listed(fillings(dataflow), "Places and their modules"));
    const goals = JSON.stringify(dataflow.pipeline);
    if (goals !== shown) {
      shown = goals;
      replace(planning, ["removed", "draining"].includes(dataflow.state) ? null : formOf());
      replace(node, element("h2", {}, "Places"), places, planning);
    }
  }

  return { update, node };
}

function listed(places, caption) {
  const others = places.some((place) => place.alternatives?.length > 0);
  return table([
    { title: "Place", cell: (each) => element("code", {}, each.id) },
    { title: "Module", cell: (each) => linked(each.module ?? NOTHING) },
    ...(others ? [{ title: "As good", cell: (each) => named(each.alternatives.join(", ")) }] : []),
  ], places, { caption, empty: "It has goals, but no open places." });
}

function linked(module) {
  if (module === NOTHING) {
    return element("span", { class: "faint" }, NOTHING);
  }
  const [name, version] = module.split("@");
  return element("a", { href: `#/modules/${encodeURIComponent(name)}/${encodeURIComponent(version)}` }, named(module));
}

/** How a new plan takes effect, and why. */
function howOf({ how, why }) {
  return why ? `${HOW[how]} The reason: ${why}.` : HOW[how];
}

function previewed(answer) {
  const { plan, changed } = answer;
  return [
    element("p", {}, howOf(answer), changed.length > 0 ? ` Places that change: ${changed.join(", ")}.` : null),
    listed(plan.places, "The plan"),
    plan.goals.length === 0 ? null : element("ul", {}, plan.goals.map((goal) => element("li", {},
      element("code", {}, goal.goal), " rests on ", named(goal.rests_on.join(", ") || "nothing"), "."))),
    plan.optimal ? null : element("p", { class: "faint" }, "There may be a better plan; time ran out."),
  ];
}
