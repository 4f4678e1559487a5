/** The composer: a dataflow is drawn, or written as JSON, and submitted; what runs already shows while it is drawn. */

import { api, newKey, Problem, Unreachable } from "../api.js";
import { bar } from "../composer/bar.js";
import { composerCanvas } from "../composer/canvas.js";
import { listenToClipboard } from "../composer/clipboard.js";
import { CHANGED, conflictOf, matching } from "../composer/conflict.js";
import { composition } from "../composer/composition.js";
import { begun, EMPTY } from "../composer/document.js";
import { draftKeeper, draftsOf } from "../composer/drafts.js";
import { editing } from "../composer/editing.js";
import { editor } from "../composer/editor.js";
import { explainer, OPEN, problemsByTask, statesOf, wrongStreams } from "../composer/explanation.js";
import { set } from "../composer/json-edits.js";
import { keyList, listenToHistory } from "../composer/keyboard.js";
import { palette } from "../composer/palette.js";
import { doneOf, previewOf } from "../composer/preview.js";
import { isPlain, reconfiguring } from "../composer/reconfiguring.js";
import { fixButton, problemList, problemsIn } from "../composer/problem-list.js";
import { taskForm } from "../composer/task-form.js";
import { templates, textOf } from "../composer/templates.js";
import { trial } from "../composer/trial.js";
import { element, problem, replace } from "../dom.js";
import { counted } from "../format.js";
import { styled } from "../styles.js";

/** The most characters by which a key changes a text: with a closing bracket, two. */
const KEY = 2;

export function title({ id }) {
  return id === undefined ? "Compose a dataflow" : `Compose a replacement of ${id}`;
}

/** Show the page; with the id of a dataflow, what is submitted replaces its document. */
export async function show(main, { parameters, session, signal, say }) {
  const path = parameters.id === undefined ? null : `/v1/dataflows/${encodeURIComponent(parameters.id)}`;
  const [types, sources, replaced] = await Promise.all([
    api.pages("/v1/task-types", { signal }), api.pages("/v1/sources", { signal, most: 1000 }),
    path === null ? null : api.get(path, { signal }), styled("composer"),
  ]);
  const known = new Map(types.map((type) => [type.name, type]));
  const typeOf = (name) => known.get(name);
  const drafts = draftsOf(session.kind === "operator" ? "operator" : session.tenant);
  const composing = composition(replaced === null ? begun(parameters) : textOf(replaced), { typeOf, shown });
  const places = { refusal: element("div", { class: "composer-over" }), alert: element("div", {}), problems: element("div", {}), preview: element("div", {}), result: element("div", {}) };
  const submitting = element("button", { class: "button first changing", type: "button", disabled: true, on: { click: submit } }, replaced === null ? "Submit" : "Replace");
  const changing = replaced === null || !isPlain(replaced) ? null
    : reconfiguring({ dataflow: replaced, path, known, text: () => composing.text, headers: () => matching(replaced), begun: (document) => { own = textOf({ document }); }, changed, signal, say });
  const standing = element("p", { class: "faint", role: "status" });
  // What the service said last, and of which text; one idempotency key for each attempt to submit it.
  let last = composing.text;
  // The document that the dataflow gets by the change that was begun here.
  let own = null;
  const keeper = draftKeeper(drafts, composing, (all) => top.list(all));
  let explained = { text: null, answer: null, key: null, states: new Map(), problems: new Map() };

  const top = bar({ isOperator: session.kind === "operator", isReplacement: replaced !== null }, {
    name: (name) => composing.isDrawn && composing.edit(set(composing.text, "/name", name), { group: "name" }),
    query: () => ask(),
    open: (made) => open(made),
    draft: ({ text: drawn, places: kept, name }) => open(drawn, kept, name),
    forget: (draft) => drafts.forget(draft.name) || top.list(drafts.all()),
    template: async (template) => tried(async () => open(await template.open())),
    fresh: () => open(EMPTY),
    undo: () => composing.undo(), redo: () => composing.redo(), arrange: () => composing.arrange(),
    fit: () => canvas.fit(), closer: () => canvas.closer(1), farther: () => canvas.closer(-1),
  });
  const hands = editing(composing, { alert: places.refusal, say, focusTask: () => form.focus(), searchTypes: () => chooser.focus(), draw: () => draw() });
  const canvas = composerCanvas({ on: hands.on, signal });
  hands.use(canvas);
  // Over the canvas, so that nothing moves under the pointer when it comes and goes.
  canvas.node.append(places.refusal);
  const chooser = palette(types, { add: hands.add, drop: hands.drop, leave: () => canvas.enter() });
  const text = editor({
    // Keys are undone together, and what is pasted alone.
    typed: (typed) => composing.edit(typed, { byHand: true, group: Math.abs(typed.length - composing.text.length) <= KEY ? "typing" : null }),
    undo: () => composing.undo(), redo: () => composing.redo(),
  });
  const form = taskForm(composing, { typeOf, sources }, {
    connect: hands.connect, removed: () => canvas.enter(),
    problemsOf: (id) => (explained.problems.get(id) ?? [])
      .map((each) => ({ ...each, action: current() && fixButton(each, composing.text, fix) })),
  });
  const tenant = () => (replaced === null ? top.query.tenant : session.kind === "operator" ? replaced.tenant : undefined);
  const trying = trial(composing, { tenant, say, signal });
  const service = explainer({ signal, on: { answered, failed } });

  function open(made, kept = new Map(), name = null) {
    canvas.reset();
    keeper.begin(name);
    composing.open(made);
    if (kept.size > 0) {
      composing.edit(made, { places: kept });
    }
  }

  function current() {
    return explained.text === composing.text ? explained.answer : null;
  }

  /** Bring everything up to date after a change. */
  function shown({ byHand = false, bySelection = false } = {}) {
    if (!byHand && !bySelection) {
      text.set(composing.text);
    }
    if (!bySelection && replaced === null) {
      keeper.soon();
    }
    if (composing.text !== last) {
      last = composing.text;
      replace(places.result);
      replace(places.preview);
      changing?.reset();
      ask();
    }
    draw();
  }

  function allow(isGood) {
    submitting.disabled = !isGood;
    if (changing !== null) {
      changing.button.disabled = !isGood || composing.text === textOf(replaced);
    }
  }

  function ask() {
    allow(false);
    if (top.needsTenant) {
      service.stop();
      standing.textContent = "Name the tenant that it is for.";
    } else if (composing.document.tasks.length > 0 || !composing.isDrawn) {
      standing.textContent = "";
      service.explain(composing.text, { tenant: tenant(), start: replaced?.start ?? top.query.start });
    }
  }

  function draw() {
    // While the service is asked, what it said last of each task stays in sight.
    const states = new Map(composing.document.tasks.map(({ id }) => [id, explained.states.get(id) ?? OPEN]));
    canvas.show({
      document: composing.document, places: composing.places, heights: composing.heights, ports: composing.ports,
      selection: composing.selection, stream: composing.stream, states, wrong: wrongStreams(current()), begun: hands.begun(),
    });
    top.show(composing);
    const [chosen] = composing.selection;
    form.show(states.get(chosen) ?? OPEN);
    trying.show();
    const problems = composing.document.tasks.length === 0 && composing.isDrawn ? [] : problemsIn(composing.text, current());
    text.mark(problems);
    replace(places.problems, problemList(problems, composing.text, { go: ({ from, to }) => text.go([from, to]), fix }));
  }

  function fix(edit) {
    composing.edit(edit(composing.text));
  }

  function answered(of, answer) {
    const { document: drawn } = composing;
    explained = { text: of, answer, key: newKey(), states: statesOf(drawn, answer), problems: problemsByTask(drawn, answer) };
    composing.learn(new Map(answer.tasks.map((task) => [task.id, task])));
    const isGood = answer.problems.length === 0;
    allow(isGood);
    standing.textContent = isGood
      ? `Ready to submit: ${answer.reused.length} of ${composing.document.tasks.length} tasks run already.`
      : `${counted(answer.problems.length, "problem")} to solve.`;
    replace(places.alert);
    replace(places.preview, previewOf(answer, composing.document));
    draw();
  }

  function failed(of, error) {
    explained = { ...explained, text: of, answer: null, key: null };
    standing.textContent = "";
    if (error.status !== 401) {
      replace(places.alert, problem(error));
    }
    draw();
  }

  function submit() {
    const { text: sent, key } = explained;
    submitting.disabled = true;
    return tried(async function send() {
      const answer = path === null
        ? await api.post("/v1/dataflows", sent, { query: top.query, headers: { "Idempotency-Key": key }, signal })
        : await api.put(path, sent, { headers: matching(replaced), signal });
      Object.assign(replaced ?? {}, { tag: answer.tag });
      replace(places.result, doneOf(answer));
      say(path === null ? "Submitted." : `Submitted revision ${answer.revision}.`);
      explained = { ...explained, key: newKey() };
      keeper.end(sent);
      places.result.querySelector("a").focus();
    });
  }

  /** Do what was refused `again` if the new document is one's own; else show what others have changed. */
  function changed(error, again) {
    return tried(async function compare() {
      const now = own === null ? null : await api.get(path, { signal });
      if (now !== null && textOf(now) === own) {
        Object.assign(replaced, now);
        return again();
      }
      replace(places.alert, conflictOf(error, {
        take: () => tried(async function take() {
          composing.edit(textOf(Object.assign(replaced, await api.get(path, { signal }))));
        }),
        overwrite: () => again(Object.assign(replaced, { tag: error.tag })),
      }));
    });
  }

  async function tried(act) {
    try {
      replace(places.alert);
      await act();
    } catch (error) {
      if (signal.aborted || error.status === 401) {
        return;
      }
      if (error.status === CHANGED) {
        return changed(error, submit);
      }
      // If it may have been done, it can be sent again with the same key.
      submitting.disabled = !(error instanceof Unreachable || (error instanceof Problem && (error.isTransient || error.status >= 500)));
      replace(places.alert, problem(error));
    }
  }

  listenToHistory(composing, signal);
  listenToClipboard(canvas.node, composing, hands, signal);
  signal.addEventListener("abort", keeper.now);
  window.addEventListener("pagehide", keeper.now, { signal });

  replace(main, element("h1", {}, title(parameters)), top.node, places.alert,
    element("div", { class: "composer" },
      chooser.node,
      element("div", { class: "composer-middle" }, top.tools, canvas.node, canvas.hint, form.node, trying.node),
      element("div", { class: "composer-text-side" }, text.node,
        element("div", { class: "toolbar" }, changing?.button, submitting, standing), places.result, places.problems)),
    changing?.node,
    places.preview,
    keyList());
  top.list(drafts.all());
  text.set(composing.text);
  shown({ bySelection: true });
  ask();
  text.enrich({ types: known, sources, composing }, signal);
  templates(signal).then((offered) => top.offer(offered), () => top.offer([]));
}
