/** The rules of streams: which ports a task has, and why a stream may not lead from one to another. */

import { taskOf } from "./document.js";

/**
 * The ports of a task, `{inputs, outputs}`, as far as they are known: from its type, or where they depend on the config,
 * from the service's preview of the task. Null where nobody knows.
 */
export function portsOf(task, type, preview) {
  return {
    inputs: type?.inputs ?? named(preview?.inputs),
    outputs: type?.outputs ?? named(preview?.outputs),
  };
}

/**
 * Why a stream is refused, as a sentence; empty if it is not.
 * @param {object} document as `drawn` has it
 * @param {object} stream `{from, from_port, to, to_port}`, with both ports named
 * @param {Map} ports those of `portsOf` by task
 * @param {Map} previews of tasks, as `POST /v1/explain` has them for drafts
 */
export function refusal(document, stream, ports, previews = new Map()) {
  const { from, to, from_port: left, to_port: right } = stream;
  const [giving, taking] = [ports.get(from), ports.get(to)];
  if (from === to) {
    return "A stream cannot lead from a task to itself.";
  }
  if (giving?.outputs?.length === 0) {
    return `${from} is a sink; it has no output.`;
  }
  if (taking?.inputs?.length === 0) {
    return `${to} is a source; it has no input.`;
  }
  if (document.streams.some((each) => isSameStream(each, stream, ports))) {
    return `There is such a stream from ${from} to ${to} already.`;
  }
  if (reaches(document, to, from)) {
    return `${to} already leads to ${from}; a dataflow has no cycles.`;
  }
  const config = taskOf(document, to)?.config ?? {};
  const isAside = (taking?.inputs ?? []).indexOf(right) > 0;
  // What a side input reads is fixed, unless somebody has named it; at the main one fields are often chosen afterwards.
  const isFixed = (at) => at === "" || (isAside && !Object.hasOwn(config, at.split("/")[0]));
  return unfit(previews.get(from)?.outputs?.[left], previews.get(to)?.inputs?.[right]?.reads ?? [], to, isFixed);
}

/** A stream without the ports that need not be named, because they are the only ones of their tasks. */
export function shortened(stream, ports) {
  const { from, to, from_port: left, to_port: right } = stream;
  return {
    from,
    ...(ports.get(from)?.outputs?.length === 1 ? {} : { from_port: left }),
    to,
    ...(ports.get(to)?.inputs?.length === 1 ? {} : { to_port: right }),
  };
}

/** The port that a stream leaves, and the one that it enters, where they are named or the only ones. */
export function endsOf(stream, ports) {
  return {
    left: stream.from_port ?? only(ports.get(stream.from)?.outputs),
    right: stream.to_port ?? only(ports.get(stream.to)?.inputs),
  };
}

/** The input port at which a stream that is dropped on a task enters: the first that no stream feeds, else the first. */
export function openPort(document, id, ports) {
  const inputs = ports.get(id)?.inputs ?? [];
  const fed = new Set(document.streams.filter((each) => each.to === id).map((each) => endsOf(each, ports).right));
  return inputs.find((port) => !fed.has(port)) ?? inputs[0];
}

/** Why the fields of a stream do not suit a task that reads some; one that it lacks matters only if it is fixed. */
function unfit(fields, reads, to, isFixed) {
  if (!fields) {
    return "";
  }
  for (const { field, kinds, at } of reads) {
    if (!Object.hasOwn(fields, field)) {
      if (isFixed(at)) {
        return `${to} needs the field ${field}, which these events do not have.`;
      }
    } else if (!kinds.includes(fields[field])) {
      return `${to} reads the field ${field} as ${kinds.join(" or ")}, and in these events it is ${fields[field]}.`;
    }
  }
  return "";
}

function reaches(document, from, to) {
  const reached = new Set([from]);
  for (const id of reached) {
    document.streams.filter((each) => each.from === id).forEach((each) => reached.add(each.to));
  }
  return reached.has(to) && taskOf(document, to) !== undefined;
}

function isSameStream(one, other, ports) {
  const [mine, others] = [endsOf(one, ports), endsOf(other, ports)];
  return one.from === other.from && one.to === other.to && mine.left === others.left && mine.right === others.right;
}

function only(ports) {
  return ports?.length === 1 ? ports[0] : undefined;
}

function named(ports) {
  return ports && Object.keys(ports).length > 0 ? Object.keys(ports) : null;
}
