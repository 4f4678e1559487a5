"""The layout of graphs: laws over many graphs, checked in the browser."""

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from tests.console.conftest import PageFor

pytestmark = pytest.mark.chromium

# Lays each graph out twice, and tells which law it breaks.
LAWS = """
async (graphs) => {
  const { layered, routeOf } = await import("/console/scripts/graph/layers.js");
  function written({ width, height, at, routes }) {
    return JSON.stringify([width, height, [...at], [...routes]]);
  }
  function overlap(one, other) {
    return one.x < other.x + other.width && other.x < one.x + one.width &&
      one.y < other.y + other.height && other.y < one.y + one.height;
  }
  const broken = [];
  graphs.forEach(({ nodes, edges }, number) => {
    const drawn = layered(nodes, edges);
    const boxes = nodes.filter((node) => drawn.at.has(node.id)).map((node) => ({ ...node, ...drawn.at.get(node.id) }));
    const byId = new Map(boxes.map((box) => [box.id, box]));
    const laws = {
      "all nodes are placed": boxes.length === nodes.length && drawn.at.size === nodes.length,
      "they are within": boxes.every(({ x, y, width, height }) =>
        x >= 0 && y >= 0 && x + width <= drawn.width && y + height <= drawn.height),
      "none overlap": boxes.every((box, place) => boxes.slice(0, place).every((other) => !overlap(box, other))),
      "edges have routes": edges.every(([from, to]) => drawn.routes.has(routeOf(from, to))),
      "edges go right": edges.every(([from, to]) => byId.get(from).x + byId.get(from).width < byId.get(to).x),
      "so do routes, from end to end": edges.every(([from, to]) => {
        const route = drawn.routes.get(routeOf(from, to));
        const [begin, end] = [byId.get(from), byId.get(to)];
        return route[0][0] === begin.x + begin.width && route[0][1] === begin.y + begin.height / 2 &&
          route.at(-1)[0] === end.x && route.at(-1)[1] === end.y + end.height / 2 &&
          route.every(([x], place) => place === 0 || x >= route[place - 1][0]);
      }),
      "no route bends within a node": [...drawn.routes.values()].every((route) =>
        route.slice(1, -1).every(([x, y]) => boxes.every((box) =>
          !(x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height)))),
      "the same again": written(layered(nodes, edges)) === written(drawn),
    };
    Object.entries(laws).filter(([, holds]) => !holds).forEach(([law]) => broken.push([number, law]));
  });
  return broken;
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A graph as input of the layout."""

    nodes: list[dict[str, Any]]
    edges: list[list[int]]


def graph(seed: int) -> Drawn:
    """A graph without cycles: few or many parts, chains or hubs, short, long and duplicate edges."""
    random = Random(seed)
    size = random.choice([0, 1, 2, 5, 20, 40, 60])
    reach, inputs = random.choice([1, 3, size + 1]), random.choice([0.3, 1.0, 2.5])
    nodes = [{"id": n, "width": random.randrange(1, 200), "height": random.randrange(1, 90)} for n in range(size)]
    edges = [
        [random.randrange(max(0, child - reach), child), child]
        for child in range(1, size)
        for _ in range(int(inputs) + (random.random() < inputs % 1))
    ]
    # The order in which nodes come says nothing of what feeds what.
    random.shuffle(nodes)
    return Drawn(nodes=nodes, edges=edges)


def test_the_laws_of_layouts(page_for: PageFor) -> None:
    """Nodes do not overlap, edges go right and around nodes, and the same graph looks the same."""
    graphs = [graph(seed) for seed in range(200)]
    page = page_for(None)
    sent = [{"nodes": each.nodes, "edges": each.edges} for each in graphs]
    assert [] == page.evaluate(LAWS, sent)


def test_edges_that_close_a_cycle_do_not_affect_the_layout(page_for: PageFor) -> None:
    """Jobs may feed each other: the closing edge goes backwards, and the rest is as without it."""
    places = """
    async () => {
      const { layered, routeOf } = await import("/console/scripts/graph/layers.js");
      const nodes = ["a", "b", "c"].map((id) => ({ id, width: 10, height: 10 }));
      const forwards = [["a", "b"], ["b", "c"]];
      const [straight, cyclic] = [layered(nodes, forwards), layered(nodes, [...forwards, ["c", "a"], ["b", "b"]])];
      return [[...straight.at], [...cyclic.at], cyclic.routes.get(routeOf("c", "a")), cyclic.routes.size];
    }
    """
    straight, cyclic, back, routes = page_for(None).evaluate(places)
    assert straight == cyclic
    assert 3 == routes
    assert back[0][0] > back[-1][0]
