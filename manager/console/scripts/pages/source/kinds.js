/** The kinds of sources, in the words of somebody who adds one. */

/** The kinds that Braid brings: a title, what happens, and hints for their settings. */
const KINDS = {
  topic: {
    title: "MQTT, at Braid's broker", note: "Devices and programs publish on a topic of yours.",
    hints: {
      topic: "Begin it with your name. `{machine}` stands for a level that becomes the field `machine`, `+` for any one level, a last `#` for all further ones.",
      retained: "Whether it begins with the message that the topic retains.",
    },
  },
  http: { title: "HTTP or a webhook", note: "Programs post events over HTTP, or a service calls a webhook." },
  mqtt: { title: "Another MQTT broker", note: "Braid subscribes to a broker of yours." },
  kafka: { title: "Kafka", note: "Braid reads a topic of your cluster." },
  files: {
    title: "Files", note: "Braid takes each new file of a folder or bucket.",
    hints: { folder: "`{\"place\": \"inbox\"}`, a folder that an operator has set up; or `{\"secret\": \"bucket\"}`, a secret with a URL." },
  },
  opcua: {
    title: "OPC UA", note: "Braid subscribes to nodes of a server.",
    hints: { nodes: "For each field the node whose value it has, such as `{\"celsius\": \"ns=2;s=Line1.Temperature\"}`." },
  },
  rate: {
    title: "Numbered events", note: "Braid makes events at an even pace, to try things.",
    hints: { per_second: "Events a second. Each has a number and a time." },
  },
  timer: { title: "A timer", note: "Braid makes an event every so many seconds.", hints: { seconds: "Seconds between two events." } },
  replay: { title: "A file of the hosts", note: "Braid replays a file that all hosts can read." },
};
/** Those that only operators may register. */
const OPERATORS_ONLY = ["replay"];
/** Those whose events Braid makes, with a schema of their own. */
export const GENERATED = ["rate", "timer", "replay"];

/** The kinds of a schema of sources, each as `{kind, title, note, hints}`; `http` is a topic that nobody has to know. */
export function kindsOf(schema, isOperator) {
  const { mapping } = schema.properties.connection.discriminator;
  const known = [...Object.keys(KINDS), ...Object.keys(mapping).filter((kind) => KINDS[kind] === undefined)];
  return known
    .filter((kind) => kind === "http" || (mapping[kind] && (isOperator || !OPERATORS_ONLY.includes(kind))))
    .map((kind) => ({ kind, hints: {}, ...(KINDS[kind] ?? { title: kind, note: aboutOf(schema, kind).description ?? "" }) }));
}

/** The schema of a kind's connection. */
export function aboutOf(schema, kind) {
  const reference = schema.properties.connection.discriminator.mapping[kind === "http" ? "topic" : kind];
  return schema.$defs[reference.split("/").at(-1)];
}
