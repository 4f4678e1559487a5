/** Lines to copy that send an event to a source: for the command line, Python, Node-RED, Telegraf and HTTP. */

const PASSWORD = "PASSWORD";
const EXAMPLES = { string: "text", float: 21.5, integer: 1, boolean: true, json: {} };
const AS_JSON = ["json", "jsonl"];

/**
 * The lines for a source, each as `{id, title, note, text}`; what cannot send its format is left out.
 *
 * @param {object} source a source of REST whose connection is a topic
 * @param {object} login where and as whom its owner connects to the broker
 * @param {object} options the service's `origin`, the `password` if it is known, and the time `now`
 */
export function linesFor(source, login, { origin, password = PASSWORD, now = new Date() }) {
  const { connection, schema } = source;
  const [topic, levels] = plain(connection.topic);
  const whole = Object.fromEntries(Object.entries(schema).sort().map(([name, kind]) => [name, EXAMPLES[kind] ?? now.toISOString()]));
  const event = Object.fromEntries(Object.entries(whole).filter(([name]) => !levels.includes(name)));
  const broker = brokerOf(login.url);
  const over = { ...broker, topic, password, user: login.user, event };
  const isJson = AS_JSON.includes(connection.format.kind);
  const message = messageOf(connection.format, event);
  return [
    { id: "mosquitto", title: "Command line", note: message === null ? `Write a message of the format ${connection.format.kind} to the file.` : "mosquitto_pub comes with the clients of mosquitto.", text: mosquitto(over, message) },
    ...(isJson ? [
      { id: "python", title: "Python", note: "pip install paho-mqtt", text: python(over) },
      { id: "node-red", title: "Node-RED", note: "Menu, Import. It sends an event each second.", text: nodeRed(over) },
      { id: "telegraf", title: "Telegraf", note: "Its metrics become flat events, with their time in milliseconds.", text: telegraf(over) },
    ] : []),
    { id: "http", title: "HTTP", note: "With an API key of yours. A dataflow has to read the source; then the answer says that the events are there.", text: curl(source.name, whole, origin) },
  ];
}

/** The topic of one device among all that a source takes, and the levels that become fields. */
function plain(topic) {
  const levels = topic.split("/");
  const names = levels.flatMap((level) => /^\{(.+)\}$/.exec(level)?.slice(1) ?? []);
  const shown = levels.filter((level) => level !== "#").map((level) => (level === "+" ? "any" : level.replace(/^\{(.+)\}$/, "$1-1")));
  return [shown.join("/"), names];
}

function brokerOf(url) {
  const [, tls, host, port] = /^mqtt(s?):\/\/(\[[^\]]+\]|[^:/]+):(\d+)/.exec(url) ?? [null, "", "BROKER", "1883"];
  return { host: host.replace(/^\[|\]$/g, ""), authority: `${host}:${port}`, port, isTls: tls === "s" };
}

/** An event as a message; null if it is not text. */
function messageOf(format, event) {
  const [first] = Object.values(event);
  switch (format.kind) {
    case "json":
    case "jsonl":
      return JSON.stringify(event);
    case "csv": {
      const columns = format.columns?.length > 0 ? format.columns : Object.keys(event);
      const row = columns.map((column) => event[column] ?? "").join(format.separator);
      return format.columns?.length > 0 ? row : `${columns.join(format.separator)}\n${row}`;
    }
    case "senml":
      return '[{"bn": "device-1:", "n": "temperature", "v": 21.5}]';
    case "text":
      return String(first ?? "text");
    default:
      return null;
  }
}

function mosquitto({ host, port, isTls, user, password, topic }, message) {
  const tls = isTls ? " --tls-use-os-certs" : "";
  const given = message === null ? "--file message" : `--message ${shell(message)}`;
  return [
    `mosquitto_pub --host ${host} --port ${port}${tls} -V 5 --qos 1 \\`,
    `  --username ${shell(user)} --pw ${shell(password)} \\`,
    `  --topic ${shell(topic)} ${given}`,
  ].join("\n");
}

function python({ host, port, isTls, user, password, topic, event }) {
  return [
    "import json",
    "",
    "import paho.mqtt.client as mqtt",
    "",
    "client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)",
    `client.username_pw_set(${JSON.stringify(user)}, ${JSON.stringify(password)})`,
    ...(isTls ? ["client.tls_set()"] : []),
    `client.connect(${JSON.stringify(host)}, ${port})`,
    "client.loop_start()",
    `event = {${Object.entries(event).map(([name, value]) => `${JSON.stringify(name)}: ${value === true ? "True" : JSON.stringify(value)}`).join(", ")}}`,
    `client.publish(${JSON.stringify(topic)}, json.dumps(event), qos=1).wait_for_publish(10)`,
    "client.disconnect()",
    "client.loop_stop()",
  ].join("\n");
}

function nodeRed({ host, port, isTls, user, password, topic, event }) {
  return JSON.stringify([
    { id: "braid-broker", type: "mqtt-broker", name: "Braid", broker: host, port, protocolVersion: "5", keepalive: "60", cleansession: true, autoConnect: true, usetls: isTls, credentials: { user, password } },
    { id: "braid", type: "tab", label: "Braid" },
    { id: "braid-event", type: "inject", z: "braid", name: "an event a second", props: [{ p: "payload" }], payload: JSON.stringify(event), payloadType: "json", repeat: "1", once: true, x: 150, y: 80, wires: [["to-braid"]] },
    { id: "to-braid", type: "mqtt out", z: "braid", topic, qos: "1", broker: "braid-broker", x: 400, y: 80, wires: [] },
  ], null, 2);
}

function telegraf({ authority, isTls, user, password, topic }) {
  return [
    "[[outputs.mqtt]]",
    `  servers = ["${isTls ? "ssl" : "tcp"}://${authority}"]`,
    `  username = ${JSON.stringify(user)}`,
    `  password = ${JSON.stringify(password)}`,
    `  topic = ${JSON.stringify(topic)}`,
    "  qos = 1",
    "  keep_alive = 30",
    '  data_format = "json"',
    '  json_timestamp_units = "1ms"',
    "  json_transformation = '$merge([tags, fields, {\"measurement\": name, \"at\": timestamp}])'",
  ].join("\n");
}

function curl(name, event, origin) {
  return [
    "curl --fail-with-body \\",
    '  --header "Authorization: Bearer API_KEY" --header "Content-Type: application/json" \\',
    `  --data ${shell(JSON.stringify([event]))} \\`,
    `  ${shell(`${origin}/v1/sources/${encodeURIComponent(name).replaceAll("%3A", ":")}/events`)}`,
  ].join("\n");
}

/** A text as one word of a shell. */
function shell(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
