/** The proposal of fields: Braid listens to a topic for ten seconds, or reads events that somebody pastes. */

import { api } from "../../api.js";
import { element, field, replace } from "../../dom.js";
import { counted } from "../../format.js";
import { button, worker } from "../../forms.js";

const SECONDS = 10;
/** The most messages of a request. */
const MOST = 1_000;

/**
 * The part of a form that proposes fields.
 * @param {object} options `topic()` to listen to, whether it `listens`, and a `note` on that; `format()` of the messages, undefined to
 *   recognise it; `take(answer)` gets the proposal; `placed(errors)` as of `worker`, and `signal`
 */
export function proposing({ topic, listens, note = "", format, take, placed, signal }) {
  const [wrong, result] = [element("div", {}), element("div", { role: "status" })];
  const events = element("textarea", { rows: 5, spellcheck: "false", autocomplete: "off" });
  const run = worker(wrong, signal);

  function propose(words, messages) {
    return run(async function ask() {
      replace(result, element("p", { class: "faint" }, words));
      try {
        const form = { topic: topic(), seconds: SECONDS, messages, format: format() };
        const answer = await api.post("/v1/sources/propose", form, { signal });
        replace(result, outcomeOf(answer, messages !== undefined));
        if (answer.events > 0) {
          take(answer);
        }
      } catch (error) {
        replace(result);
        throw error;
      }
    }, placed);
  }

  function listen() {
    return propose(`Listening to ${topic()} for ${SECONDS} seconds: let something publish there now.`, undefined);
  }

  function read() {
    const messages = messagesIn(events.value, format());
    if (messages.length === 0) {
      replace(result, element("p", { class: "wrong" }, "Paste at least one event."));
      events.focus();
      return undefined;
    }
    return propose("Reading…", messages);
  }

  return element("div", { class: "asking" },
    listens ? element("div", {},
      button(`Listen for ${SECONDS} seconds`, listen), element("p", { class: "faint" }, note)) : null,
    element("details", { open: !listens }, element("summary", {}, "Paste events"),
      field("Events", events, "A message as it will come, such as {\"speed\": 3.5}, or several, one a line."),
      button("Propose fields", read)),
    wrong, result);
}

/** The messages in a text: each line is one where all are JSON, else all of it is one. */
function messagesIn(text, format) {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const inLines = isJson(text) ? [text.trim()] : lines.length <= MOST && lines.every(isJson) ? lines : [text];
  const kind = format?.kind ?? format;
  return lines.length === 0 ? [] : kind === undefined || kind === "json" || kind === "text" ? inLines : [text];
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function outcomeOf({ messages, events, unread, why_unread: why, undecided }, isPasted) {
  const whole = undecided.filter((each) => each.field === null);
  if (events === 0) {
    const none = messages === 0 ? `Nothing came in ${SECONDS} seconds.` : "No event could be read.";
    const remedy = why ? `${why}. Is the format right?` : "Publish an event, and listen again; or paste one.";
    return element("p", { class: "wrong" }, `${none} ${remedy}`);
  }
  return [
    element("p", {}, `Read ${counted(events, "event")} in ${counted(messages, "message")}${isPasted ? "" : " that came"}. Look through the fields below.`),
    unread > 0 ? element("p", { class: "wrong" }, `${counted(unread, "event")} could not be read: ${why}.`) : null,
    whole.map((each) => element("p", { class: "faint" }, each.why)),
  ];
}
