/**
 * The layout of one connected part of a graph: a column for each layer, with short edges and few crossings.
 *
 * A column holds an item for each node, and one for each edge that passes through it, where the edge may bend.
 */

const ACROSS = 56;
const BESIDE = 16;
const SWEEPS = 6;
/** The bends for each node above which long edges are straight: with more, nobody could follow them. */
const MOST_BENDS = 8;

/**
 * The items of a part with their places, and its width and height; `members` are in topological order. With an aspect,
 * which is the ratio of width to height, a layer that is too high for it has several columns.
 */
export function laidOut(graph, members, aspect = null) {
  const layer = layersOf(graph, members);
  const layers = withBends(graph, members, aspect === null ? layer : wrapped(graph, members, layer, aspect));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    arrange(layers, sweep % 2 === 0);
  }
  layers.forEach(stack);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    align(layers, sweep % 2 === 1);
  }
  return measured(layers);
}

/** The layer of each node: its longest distance from a source; a source is next to the first node that it feeds. */
function layersOf(graph, members) {
  const layer = new Map(members.map((node) => [node, 0]));
  for (const node of members) {
    for (const child of graph.children[node]) {
      layer.set(child, Math.max(layer.get(child), layer.get(node) + 1));
    }
  }
  for (const node of members) {
    if (graph.parents[node].length === 0 && graph.children[node].length > 0) {
      layer.set(node, Math.min(...graph.children[node].map((child) => layer.get(child))) - 1);
    }
  }
  return layer;
}

/** The column of each node: its layer, in as many columns as keep the height that a part of this area has. */
function wrapped(graph, members, layer, aspect) {
  const high = (node) => graph.nodes[node].height + BESIDE;
  const area = members.reduce((sum, node) => sum + high(node) * (graph.nodes[node].width + ACROSS), 0);
  const most = Math.sqrt(area / aspect);
  const columns = new Map();
  let [column, filled] = [-1, 0];
  const byLayer = [...members].sort((one, other) => layer.get(one) - layer.get(other));
  byLayer.forEach(function settle(node, at) {
    const begins = at === 0 || layer.get(node) !== layer.get(byLayer[at - 1]);
    if (begins || filled + high(node) > most) {
      column += 1;
      filled = 0;
    }
    filled += high(node);
    columns.set(node, column);
  });
  return columns;
}

function withBends(graph, members, layer) {
  let highest = 0;
  let passed = 0;
  for (const node of members) {
    highest = Math.max(highest, layer.get(node));
    graph.children[node].forEach((child) => (passed += layer.get(child) - layer.get(node) - 1));
  }
  const layers = Array.from({ length: highest + 1 }, () => []);
  const items = new Map();
  for (const node of members) {
    const item = { node, height: graph.nodes[node].height, width: graph.nodes[node].width, up: [], down: [], y: 0 };
    items.set(node, item);
    layers[layer.get(node)].push(item);
  }
  const bends = passed <= MOST_BENDS * members.length;
  for (const node of members) {
    for (const child of graph.children[node]) {
      let before = items.get(node);
      for (let at = layer.get(node) + 1; bends && at < layer.get(child); at += 1) {
        const bend = { node: -1, edge: [node, child], height: 0, width: 0, up: [before], down: [], y: 0 };
        layers[at].push(bend);
        before.down.push(bend);
        before = bend;
      }
      before.down.push(items.get(child));
      items.get(child).up.push(before);
    }
  }
  return layers;
}

/** Sort each layer by the mean place of its neighbours in the layer before, or after. */
function arrange(layers, downwards) {
  layers.forEach((layer) => layer.forEach((item, place) => (item.place = place)));
  for (const layer of downwards ? layers : [...layers].reverse()) {
    layer.forEach((item) => (item.wish = mean(downwards ? item.up : item.down, (each) => each.place, item.place)));
    layer.sort((one, other) => one.wish - other.wish || one.place - other.place);
    layer.forEach((item, place) => (item.place = place));
  }
}

function mean(items, value, otherwise) {
  return items.length === 0 ? otherwise : items.reduce((sum, each) => sum + value(each), 0) / items.length;
}

function stack(layer) {
  let y = 0;
  for (const item of layer) {
    item.y = y + item.height / 2;
    y += item.height + BESIDE;
  }
}

/** Move each layer towards its neighbours, without reordering or overlap: the closest by least squares. */
function align(layers, downwards) {
  for (const layer of downwards ? layers : [...layers].reverse()) {
    const blocks = [];
    let offset = 0;
    layer.forEach((item, place) => {
      const near = downwards ? item.up : item.down;
      offset += place === 0 ? 0 : (layer[place - 1].height + item.height) / 2 + BESIDE;
      item.offset = offset;
      blocks.push({ sum: mean(near, (each) => each.y, item.y) - offset, count: 1 });
      while (blocks.length > 1 && height(blocks.at(-2)) >= height(blocks.at(-1))) {
        const last = blocks.pop();
        blocks.at(-1).sum += last.sum;
        blocks.at(-1).count += last.count;
      }
    });
    let place = 0;
    for (const block of blocks) {
      for (const end = place + block.count; place < end; place += 1) {
        // Whole numbers keep the distance of neighbours exact.
        layer[place].y = Math.round(height(block)) + layer[place].offset;
      }
    }
  }
}

function height(block) {
  return block.sum / block.count;
}

function measured(layers) {
  const items = layers.flat();
  const top = items.reduce((least, item) => Math.min(least, item.y - item.height / 2), Infinity);
  const bottom = items.reduce((most, item) => Math.max(most, item.y + item.height / 2), -Infinity);
  let x = 0;
  for (const layer of layers) {
    const width = layer.reduce((most, item) => Math.max(most, item.width), 0);
    layer.forEach((item) => Object.assign(item, { x, y: item.y - top, passes: width }));
    x += width + ACROSS;
  }
  return { items, width: x - ACROSS, height: bottom - top };
}
