/** Live updates of pages: repeated requests and server-sent events. */

import { api, Problem, Unreachable } from "./api.js";

const RETRY_SECONDS = 3;

/**
 * Call `look` at once, and again so many seconds after each call has ended, while the page is visible.
 *
 * Continues if the service is unreachable for a while. Ends when the signal is aborted; rejects with any other error.
 */
export async function every(seconds, look, signal) {
  while (!signal.aborted) {
    await tried(look, signal);
    await pause(seconds, signal);
    await visible(signal);
  }
}

/**
 * Listen to server-sent events. `on` has a listener for each kind of event, called with its data (parsed if it is JSON);
 * `open` is called when the stream begins, and `closed` when it broke and will be opened again.
 *
 * Ends when the signal is aborted; rejects with a `Problem` if the service refuses for good.
 */
export async function stream(path, { on, signal }) {
  const state = { last: "" };
  while (!signal.aborted) {
    await tried(function listen() {
      return listened(path, on, signal, state);
    }, signal);
    if (!signal.aborted) {
      on.closed?.();
    }
    await pause(RETRY_SECONDS, signal);
  }
}

/** Wait so many seconds, or until the signal is aborted. */
export function pause(seconds, signal) {
  return new Promise(function wait(resolve) {
    if (signal.aborted) {
      resolve();
      return;
    }
    const timer = setTimeout(done, seconds * 1000);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}

/** The complete events in a text of server-sent events, `[{id, event, data}]`, and the rest of the text. */
function parsed(text) {
  const blocks = text.replaceAll("\r\n", "\n").split("\n\n");
  const rest = blocks.pop();
  return [blocks.map(eventOf).filter(hasData), rest];
}

async function tried(look, signal) {
  try {
    await look();
  } catch (error) {
    const passes = error instanceof Unreachable || (error instanceof Problem && error.isTransient);
    if (!passes && !signal.aborted) {
      throw error;
    }
  }
}

async function listened(path, on, signal, state) {
  const headers = { Accept: "text/event-stream", ...(state.last ? { "Last-Event-ID": state.last } : {}) };
  const response = await api.open("GET", path, undefined, { headers, signal });
  on.open?.();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const part = await reader.read().catch(broken);
    if (part.done) {
      return;
    }
    const [events, rest] = parsed(text + part.value);
    text = rest;
    for (const each of events) {
      state.last = each.id || state.last;
      on[each.event]?.(decoded(each.data));
    }
  }
}

// A broken stream counts as ended, and is opened again.
function broken() {
  return { done: true };
}

function eventOf(block) {
  const event = { id: "", event: "message", data: [] };
  for (const line of block.split("\n")) {
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (name === "data") {
      event.data.push(value);
    } else if (name === "id" || name === "event") {
      event[name] = value;
    }
  }
  return { ...event, data: event.data.join("\n") };
}

function hasData(event) {
  return event.data !== "";
}

function decoded(data) {
  try {
    return JSON.parse(data);
  } catch {
    return data;
  }
}

function visible(signal) {
  return new Promise(function wait(resolve) {
    function look() {
      if (signal.aborted || document.visibilityState === "visible") {
        document.removeEventListener("visibilitychange", look);
        signal.removeEventListener("abort", look);
        resolve();
      }
    }
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}
