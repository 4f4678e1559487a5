/** The section on the fields of a source: shown to its readers, changed by its owner. */

import { api } from "../../api.js";
import { element, named, replace, table } from "../../dom.js";
import { counted } from "../../format.js";
import { button, confirmed, worker } from "../../forms.js";
import { fieldTable } from "./fields.js";
import { GENERATED } from "./kinds.js";
import { proposing } from "./proposal.js";

/** What a topic has that stands for many, to which nobody can listen for a proposal. */
const MANY = /[+#{]/;

/** The section; the fields of generated sources cannot be changed. */
export function schemaForm(source, isMine, { path, signal, say, changed }) {
  const place = element("div", {});
  const isChangeable = isMine && !GENERATED.includes(source.connection.kind);
  let { schema } = source;

  function display() {
    replace(place, table([
      { title: "Field", cell: ([name]) => named(name) },
      { title: "Type", cell: ([, type]) => type },
    ], Object.entries(schema).sort(), { caption: "Fields that events have", empty: "No fields are declared, so events are taken as they are." }),
    isChangeable ? button("Change fields…", change, { style: "changing" }) : null);
  }

  function change() {
    const wrong = element("div", {});
    const run = worker(wrong, signal);
    const fields = fieldTable();
    const { kind, topic, format } = source.connection;

    function save(event) {
      event.preventDefault();
      const edited = fields.edited();
      return edited === null ? undefined : run(async function send() {
        const body = { schema: edited };
        const { going_on: goesOn, dependent } = await api.put(`${path}/schema`, body, { query: { dry_run: true }, signal });
        const words = element("div", {},
          element("p", {}, `${counted(goesOn, "dataflow")} of those that run ${goesOn === 1 ? "keeps" : "keep"} the fields before.`),
          dependent.map(({ dataflow, why }) => element("p", { class: "wrong" }, `${dataflow} could not be submitted again: ${why.join("; ")}`)));
        if (await confirmed({ title: "Change the fields?", body: words, action: "Change", signal })) {
          ({ source: { schema } } = await api.put(`${path}/schema`, body, { signal }));
          say("The fields are changed.");
          display();
          await changed();
        }
      }, fields.show);
    }

    fields.set(schema);
    replace(place, element("form", { class: "card fields-form", on: { submit: save } },
      proposing({
        topic: () => topic ?? source.name, listens: kind === "topic" && !MANY.test(topic), format: () => format ?? undefined,
        take: (answer) => fields.set(answer.source.schema, answer.undecided), signal,
      }),
      fields.node, wrong,
      element("div", { class: "toolbar" },
        element("button", { class: "button first", type: "submit" }, "Save"), button("Cancel", display))));
    place.querySelector("button").focus();
  }

  display();
  return element("section", { "aria-labelledby": "fields" }, element("h2", { id: "fields" }, "Fields"), place);
}
