/** The form that adds a source: where events come from, their format, their fields, and who may read them. */

import { api } from "../api.js";
import { wrongAt } from "../config-form.js";
import { element, field, replace } from "../dom.js";
import { worker } from "../forms.js";
import { connectionForm } from "./source/connection.js";
import { fieldTable } from "./source/fields.js";
import { GENERATED, kindsOf } from "./source/kinds.js";
import { proposing } from "./source/proposal.js";
import { visibilityFields } from "./source/visibility.js";
import { addressOf } from "./sources.js";

const ABOUT_LISTENING = "Your credentials may publish on a topic once a source has it. Does nothing come? Add the source "
  + "without fields, and listen on its page.";

export const title = "Add a source";

/** Show the page. */
export async function show(main, { session, signal, navigate, say }) {
  const isOperator = session.kind === "operator";
  const [schema, tenants] = await Promise.all([
    api.get("/console/source.schema.json", { signal }), isOperator ? api.pages("/v1/tenants", { signal }) : [],
  ]);
  const kinds = kindsOf(schema, isOperator);
  const owner = isOperator
    ? element("select", { on: { change: choose } }, tenants.map((each) => element("option", { value: each.name }, each.name))) : null;
  const name = element("input", { autocomplete: "off", spellcheck: "false", maxlength: 128, on: { input: named } });
  const [naming, owning] = [
    checked(field("Name", name, "Letters, digits, dots, dashes and underscores, such as presses."), name),
    owner === null ? null : checked(field("Owner", owner), owner),
  ];
  const [settings, described, wrong] = [element("div", {}), element("div", {}), element("div", {})];
  const fields = fieldTable();
  const readers = visibilityFields({ visibility: "private", readers: [] });
  const run = worker(wrong, signal);
  const choices = element("fieldset", { class: "kinds", on: { change: choose } },
    element("legend", {}, "Where do its events come from?"),
    kinds.map(({ kind, title: words, note }, at) => element("label", { class: "card kind" },
      element("input", { type: "radio", name: "kind", value: kind, checked: at === 0 }),
      element("span", {}, element("strong", {}, words), element("br"), element("span", { class: "faint" }, note)))));
  let chosen = kinds[0];
  let form = null;
  let hasOwnTopic = false;
  let turn = 0;

  function tenant() {
    return owner === null ? session.tenant : owner.value;
  }

  /** Show the settings of the chosen kind, with the secrets of the owner. */
  async function choose() {
    turn += 1;
    const mine = turn;
    chosen = kinds.find(({ kind }) => kind === choices.querySelector("input:checked").value);
    const secrets = await api.pages("/v1/secrets", { query: { tenant: isOperator ? tenant() : null }, signal })
      // A service without a root keeps none.
      .catch(() => []);
    if (mine !== turn || signal.aborted) {
      return;
    }
    hasOwnTopic = false;
    form = connectionForm(schema, chosen, secrets.map((secret) => secret.name));
    form.node.addEventListener("input", typed);
    replace(settings, form.node);
    const isGenerated = GENERATED.includes(chosen.kind);
    replace(described, isGenerated ? element("p", { class: "faint" }, "Braid makes these events, so their fields are known.") : [
      proposing({
        topic: topicOf, listens: chosen.kind === "topic", note: ABOUT_LISTENING, format: formatOf, take, placed, signal,
      }),
      fields.node,
    ]);
    named();
  }

  function typed(event) {
    hasOwnTopic ||= event.target === topicInput();
  }

  function topicInput() {
    return chosen.kind === "topic" ? form?.node.querySelector("input") : undefined;
  }

  /** A topic below the owner's name is offered as long as nobody has written another. */
  function named() {
    const input = topicInput();
    if (input && !hasOwnTopic) {
      input.value = name.value === "" ? "" : `${tenant()}/${name.value}`;
    }
  }

  function connection() {
    const edited = form.edited().connection;
    return chosen.kind === "http" ? { ...edited, topic: `${tenant()}/${name.value}` } : edited;
  }

  function topicOf() {
    return connection().topic || `${tenant()}/${name.value || "events"}`;
  }

  /** The format that somebody has chosen; the first one is recognised in what comes. */
  function formatOf() {
    const { format } = form.edited().connection;
    return format === "json" ? undefined : format;
  }

  function take({ source, undecided }) {
    form.messages?.set(source.connection.format);
    fields.set(source.schema, undecided);
  }

  /** Show errors at the fields that they name; returns the others. */
  function placed(errors) {
    const here = errors.map((each) => ({ ...each, pointer: each.pointer.replace(/^\/(topic|format)(?=\/|$)/, "/connection/$1") }));
    const rest = fields.show(form.show(here));
    naming(rest.filter(({ pointer }) => pointer === "/name"));
    owning?.(rest.filter(({ pointer }) => pointer === "/owner"));
    const others = rest.filter(({ pointer }) => pointer !== "/name" && !(owning && pointer === "/owner"));
    const left = readers.show(others);
    main.querySelector('[aria-invalid="true"]')?.focus();
    return left;
  }

  async function register(event) {
    event.preventDefault();
    const schemaOf = GENERATED.includes(chosen.kind) ? {} : fields.edited();
    if (form === null || schemaOf === null) {
      return;
    }
    const { problems } = form.edited();
    if (problems.length > 0) {
      form.show(problems.map((each) => ({ ...each, pointer: `/connection/${each.field}` })));
      return;
    }
    await run(async function send() {
      const answer = await api.post("/v1/sources", {
        name: name.value, connection: connection(), schema: schemaOf, owner: tenant(), ...readers.value(),
      }, { signal });
      say(`The source ${answer.name} is registered.`);
      navigate(`${addressOf(answer.name)}${chosen.kind === "http" ? "?by=http" : ""}`);
    }, placed);
  }

  if (isOperator && tenants.length === 0) {
    replace(main, element("h1", {}, title),
      element("p", { class: "empty" }, "A source belongs to a tenant. ", element("a", { href: "#/tenants" }, "Admit a tenant first.")));
    return;
  }
  replace(main, element("h1", {}, title),
    element("form", { class: "steps-form changing", novalidate: true, on: { submit: register } },
      choices,
      section("Name and settings", owning?.node, naming.node, settings),
      section("Fields", described),
      section("Who may read it", readers.node),
      wrong,
      element("div", { class: "toolbar" },
        element("button", { class: "button first", type: "submit" }, "Add the source"),
        element("a", { class: "button", href: "#/sources" }, "Cancel"))));
  await choose();
}

function section(words, ...parts) {
  return element("section", { class: "card" }, element("h2", {}, words), parts);
}

/** A field that can show its problems: a function, with the node. */
function checked(node, control) {
  return Object.assign(wrongAt(node, control), { node });
}
