/**
 * The layout of a graph from left to right: a node is left of those that it feeds.
 *
 * Parts that are not connected are laid out separately and packed into rows. Nothing is random: the same graph always
 * looks the same.
 */

import { laidOut } from "./column-layout.js";

const APART = 40;
/** The desired ratio of width to height. */
const ASPECT = 1.6;

/**
 * The places of nodes and the routes of edges. An edge that closes a cycle is straight, and has no effect on the layout.
 * @param {Array<{id: *, width: number, height: number}>} nodes
 * @param {Array<[*, *]>} edges pairs of a feeding and a fed node; those of unknown nodes are ignored
 * @param {object} how `wraps` makes several columns of one that is much higher than the whole is wide
 * @returns {{width: number, height: number, at: Map<*, {x: number, y: number}>, routes: Map<string, number[][]>}}
 */
export function layered(nodes, edges, { wraps = false } = {}) {
  const graph = linked(nodes, edges);
  const parts = connected(graph).map((members) => laidOut(graph, members, wraps ? ASPECT : null));
  return assembled(graph, packed(parts));
}

/** The key of an edge in the routes. */
export function routeOf(from, to) {
  return `${from}→${to}`;
}

function linked(nodes, edges) {
  const numbers = new Map(nodes.map((node, number) => [node.id, number]));
  const children = nodes.map(() => new Set());
  for (const [from, to] of edges) {
    const [parent, child] = [numbers.get(from), numbers.get(to)];
    if (parent !== undefined && child !== undefined && parent !== child) {
      children[parent].add(child);
    }
  }
  const graph = { nodes, children: children.map((each) => [...each]), parents: nodes.map(() => []), closing: [] };
  openCycles(graph);
  graph.children.forEach((each, parent) => each.forEach((child) => graph.parents[child].push(parent)));
  graph.order = inOrder(graph);
  return graph;
}

/** Remove the edges that close cycles. */
function openCycles(graph) {
  const [WAITS, OPEN, DONE] = [0, 1, 2];
  const state = new Uint8Array(graph.nodes.length);
  const kept = graph.nodes.map(() => []);
  for (let root = 0; root < graph.nodes.length; root += 1) {
    const path = state[root] === WAITS ? [[root, 0]] : [];
    while (path.length > 0) {
      const top = path[path.length - 1];
      const [node, next] = top;
      state[node] = OPEN;
      if (next === graph.children[node].length) {
        state[node] = DONE;
        path.pop();
        continue;
      }
      top[1] += 1;
      const child = graph.children[node][next];
      if (state[child] === OPEN) {
        graph.closing.push([node, child]);
      } else {
        kept[node].push(child);
        if (state[child] === WAITS) {
          path.push([child, 0]);
        }
      }
    }
  }
  graph.children = kept;
}

/** The nodes in topological order, otherwise in the given order. */
function inOrder(graph) {
  const waits = graph.parents.map((parents) => parents.length);
  const order = [...graph.nodes.keys()].filter((node) => waits[node] === 0);
  for (const node of order) {
    for (const child of graph.children[node]) {
      waits[child] -= 1;
      if (waits[child] === 0) {
        order.push(child);
      }
    }
  }
  return order;
}

/** The nodes of each connected part, in topological order. */
function connected(graph) {
  const part = new Int32Array(graph.nodes.length).fill(-1);
  let parts = 0;
  for (let root = 0; root < graph.nodes.length; root += 1) {
    if (part[root] < 0) {
      part[root] = parts;
      const reached = [root];
      for (const node of reached) {
        for (const next of [...graph.children[node], ...graph.parents[node]]) {
          if (part[next] < 0) {
            part[next] = parts;
            reached.push(next);
          }
        }
      }
      parts += 1;
    }
  }
  const members = Array.from({ length: parts }, () => []);
  graph.order.forEach((node) => members[part[node]].push(node));
  return members;
}

/** Pack parts into rows, the highest first. */
function packed(parts) {
  const area = parts.reduce((sum, part) => sum + (part.width + APART) * (part.height + APART), 0);
  const wanted = parts.reduce((most, part) => Math.max(most, part.width), Math.sqrt(area * ASPECT));
  let [x, y, row] = [0, 0, 0];
  for (const part of [...parts].sort((one, other) => other.height - one.height)) {
    if (x > 0 && x + part.width > wanted) {
      [x, y, row] = [0, y + row + APART, 0];
    }
    Object.assign(part, { x, y });
    row = Math.max(row, part.height);
    x += part.width + APART;
  }
  return parts;
}

function assembled(graph, parts) {
  const drawn = { width: 0, height: 0, at: new Map(), routes: new Map() };
  const bends = new Map();
  const ids = graph.nodes.map((node) => node.id);
  for (const part of parts) {
    drawn.width = Math.max(drawn.width, part.x + part.width);
    drawn.height = Math.max(drawn.height, part.y + part.height);
    for (const item of part.items) {
      const [x, y] = [part.x + item.x, part.y + item.y];
      if (item.node >= 0) {
        drawn.at.set(ids[item.node], { x, y: y - item.height / 2 });
      } else {
        const name = routeOf(ids[item.edge[0]], ids[item.edge[1]]);
        bends.set(name, [...(bends.get(name) ?? []), [x, y], [x + item.passes, y]]);
      }
    }
  }
  const pairs = graph.children.flatMap((children, parent) => children.map((child) => [parent, child]));
  for (const [from, to] of [...pairs, ...graph.closing]) {
    const [parent, child] = [graph.nodes[from], graph.nodes[to]];
    const [left, right] = [drawn.at.get(parent.id), drawn.at.get(child.id)];
    const name = routeOf(parent.id, child.id);
    const begin = [left.x + parent.width, left.y + parent.height / 2];
    drawn.routes.set(name, [begin, ...(bends.get(name) ?? []), [right.x, right.y + child.height / 2]]);
  }
  return drawn;
}
