/** The section on machines: which hosts each carries, who has copies, and buttons to admit and drain it. */

import { api } from "../../api.js";
import { badge, element, problem, replace, table } from "../../dom.js";
import { count, counted } from "../../format.js";
import { smallButton } from "../../forms.js";
import { refresh } from "../../refresh.js";

const PATH = "/v1/machines";

/** The section on machines; empty while no machine reports itself. */
export function machineSection({ signal, say }) {
  const [wrong, place] = [element("div", {}), element("div", {})];
  const node = element("section", { hidden: true }, element("h2", {}, "Machines"), wrong, place);

  async function look() {
    const machines = await api.pages(PATH, { signal });
    node.hidden = machines.length === 0;
    refresh(place, troubles(machines), listed(machines));
  }

  async function turn(machine) {
    const path = `${PATH}/${encodeURIComponent(machine.name)}/drain`;
    await act(() => (machine.draining ? api.remove(path, { signal }) : api.post(path, undefined, { signal })),
      machine.draining ? `Machine ${machine.name} takes hosts again.` : `Machine ${machine.name} drains.`);
  }

  async function admit(machine) {
    // The one that is shown, and no other that has come meanwhile.
    const path = `${PATH}/${encodeURIComponent(machine.name)}/admit`;
    await act(() => api.post(path, undefined, { query: { key: machine.key }, signal }),
      `Machine ${machine.name} is admitted.`);
  }

  async function act(ask, words) {
    replace(wrong);
    try {
      await ask();
      say(words);
      await look();
    } catch (error) {
      if (!signal.aborted) {
        replace(wrong, problem(error));
      }
    }
  }

  function listed(machines) {
    return table([
      { title: "Machine", cell: (machine) => machine.name },
      { title: "State", cell: (machine) => badge(stateOf(machine)) },
      { title: "Zone", cell: (machine) => machine.zone || "–" },
      { title: "Load of cores", number: true, cell: loadOf },
      { title: "Speed of a core", number: true, cell: (machine) => cores(machine.speed) },
      { title: "Of the ring", number: true, cell: (machine) => part(machine.share) },
      { title: "Shares root with", cell: (machine) => list(machine.shares_root_with) },
      { title: "Carries", cell: (machine) => lines(machine.hosts.map(hostOf)) },
      { title: "Keeps", cell: (machine) => list(machine.keeps) },
      { title: "Bytes behind", number: true, cell: (machine) => lines(machine.hosts.map(behindOf)) },
      { title: "Actions", cell: (machine) => [
        machine.waits ? button("Admit", machine, () => admit(machine)) : null,
        button(machine.draining ? "Undrain" : "Drain", machine, () => turn(machine)),
      ] },
    ], machines, { caption: counted(machines.length, "machine") });
  }

  return { node, look };
}

/** The cores that its hosts take, of those that it has. */
function loadOf(machine) {
  return `${cores(machine.load)} of ${cores(machine.cores)}`;
}

function cores(value) {
  return value === null ? "–" : value.toFixed(2);
}

function part(share) {
  return share === null ? "–" : `${Math.round(share * 100)} %`;
}

function stateOf(machine) {
  return machine.waits ? "waits" : machine.alive ? "alive" : "away";
}

/** Machines that wait to be admitted, what keeps a host from leaving a machine, and copies in trouble. */
function troubles(machines) {
  const hosts = machines.flatMap((machine) => machine.hosts);
  const wrong = [
    ...machines.filter((machine) => machine.waits).map((machine) =>
      `Machine ${machine.name}, with the key ${machine.key || "–"}, waits: ${machine.waits}.`),
    ...hosts.filter((host) => host.stays).map((host) => `Host ${host.name} stays where it is: ${host.stays}.`),
    ...machines.filter((machine) => machine.full).map((machine) => `Copies leave machine ${machine.name}: ${machine.full}.`),
    ...hosts.flatMap((host) => Object.entries(host.troubles).map(([peer, why]) =>
      `The copy of host ${host.name} at machine ${peer} waits: ${why}.`)),
    ...hosts.filter((host) => host.under_replicated).map((host) => `Host ${host.name} has too few copies.`),
  ];
  return wrong.length === 0 ? null : element("div", { class: "problem" },
    element("ul", {}, wrong.map((each) => element("li", {}, each))));
}

function hostOf(host) {
  const copies = host.kept_by.length > 0 ? `copied to ${host.kept_by.join(", ")}` : "no copies";
  const load = host.load === null ? "" : `, ${cores(host.load)} cores`;
  return `${host.name}: ${copies}${load}${host.heir ? `, on its way to ${host.heir}` : ""}`;
}

function behindOf(host) {
  return host.behind_bytes === null ? "–" : count(host.behind_bytes);
}

function button(words, machine, act) {
  return smallButton(words, act, `${words} machine ${machine.name}`);
}

function lines(words) {
  return words.length === 0 ? "–" : element("div", {}, words.map((each) => element("div", {}, each)));
}

function list(words) {
  return words.length === 0 ? "–" : words.join(", ");
}
