/** CodeMirror as the editor of the document: completion, folding, and problems in the margin. */

import {
  autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap, completionKeymap, defaultKeymap, EditorState,
  EditorView, foldGutter, foldKeymap, HighlightStyle, highlightActiveLine, indentOnInput, json, keymap, lineNumbers,
  lintGutter, lintKeymap, setDiagnostics, syntaxHighlighting, syntaxTree, tags,
} from "../../vendor/codemirror.js";
import { element } from "../dom.js";
import { completionsAt } from "./completion.js";

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--warn)" },
]);
const LOOKS = EditorView.theme({
  "&": { height: "clamp(18rem, 52vh, 44rem)", color: "var(--text)", backgroundColor: "var(--surface)", border: "1px solid var(--faint)", borderRadius: "var(--radius)", fontSize: "0.875rem" },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-gutters": { color: "var(--faint)", backgroundColor: "var(--ground)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 9%, transparent)" },
  ".cm-tooltip": { color: "var(--text)", backgroundColor: "var(--surface)", border: "1px solid var(--line)", maxWidth: "32rem" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "var(--on-accent)", backgroundColor: "var(--accent)" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.75" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  // No background: Chromium gives it to what replaces such a bracket, as a style that the page's policy forbids.
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "transparent", outline: "1px solid var(--accent)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "transparent", outline: "1px solid var(--bad)" },
  ".cm-foldPlaceholder": { color: "var(--text)", backgroundColor: "var(--ground)", border: "1px solid var(--line)" },
});

/**
 * An editor with CodeMirror.
 * @param {object} on `typed(text)`, `undo()` and `redo()`: the history is the composer's, for text and canvas together
 * @param {object} known what `completionsAt` knows
 */
export function richEditor(on, known) {
  const node = element("div", { class: "composer-rich" });
  // Styles in a shadow root are sheets of their own; in the page they would be inline, which its policy forbids.
  const root = node.attachShadow({ mode: "open" });
  let isOwn = false;
  let marked = "";
  const step = (name) => () => on[name]() ?? true;
  const view = new EditorView({
    root, parent: root,
    state: EditorState.create({
      extensions: [
        keymap.of([
          { key: "Mod-z", run: step("undo"), preventDefault: true },
          { key: "Mod-y", run: step("redo"), preventDefault: true },
          { key: "Mod-Shift-z", run: step("redo"), preventDefault: true },
        ]),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...foldKeymap, ...lintKeymap, ...defaultKeymap]),
        lineNumbers(), foldGutter(), lintGutter(), highlightActiveLine(), indentOnInput(), bracketMatching(), closeBrackets(),
        json(), syntaxHighlighting(COLOURS), LOOKS, EditorView.lineWrapping,
        autocompletion({ override: [completed], tooltipClass: () => "composer-completion" }),
        EditorView.contentAttributes.of({ "aria-label": "Document", "aria-multiline": "true", tabindex: "0" }),
        EditorView.updateListener.of(function updated(update) {
          if (update.docChanged && !isOwn) {
            on.typed(update.state.doc.toString());
          }
        }),
      ],
    }),
  });

  function completed(context) {
    const node = syntaxTree(context.state).resolveInner(context.pos, -1);
    const found = completionsAt(node, context.state.doc.toString(), known);
    if (found === null || found.options.length === 0 || (found.from === null && !context.explicit)) {
      return null;
    }
    return { from: found.from ?? context.pos, to: found.to ?? context.pos, options: found.options, filter: found.from === null ? false : undefined };
  }

  return {
    node,
    text: () => view.state.doc.toString(),

    /** Show another text; only what differs is replaced, so that the cursor and the folds stay. */
    set(text) {
      const before = view.state.doc.toString();
      if (before === text) {
        return;
      }
      let [front, back] = [0, 0];
      const most = Math.min(before.length, text.length);
      while (front < most && before[front] === text[front]) {
        front += 1;
      }
      while (back < most - front && before.at(-1 - back) === text.at(-1 - back)) {
        back += 1;
      }
      isOwn = true;
      view.dispatch({ changes: { from: front, to: before.length - back, insert: text.slice(front, text.length - back) } });
      isOwn = false;
    },

    mark(problems) {
      const [end, now] = [view.state.doc.length, JSON.stringify(problems)];
      if (now === marked) {
        return;
      }
      marked = now;
      view.dispatch(setDiagnostics(view.state, problems.map(({ from, to, message, remedy }) => ({
        from: Math.min(from, end), to: Math.min(to, end), severity: "error", message: remedy ? `${message}; ${remedy}` : message,
      }))));
    },

    go(from, to) {
      view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
      view.focus();
    },
  };
}
