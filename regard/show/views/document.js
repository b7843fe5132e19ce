// A text in sentences, its words shaded by sqrt(p_s) p_w; a sentence that is pointed at by the weights of its own words.

import {
  clean,
  largest,
  make,
  numberOf,
  onTheme,
  readRamp,
  readTable,
  rove,
  scaleOf,
  shadeOf,
  shadeWord,
  strongest,
  toldLine,
  tokenOf,
  topOf,
  topWords,
  usualTop,
  withPieces,
} from "./parts.js";
import {wordsOf} from "./text.js";

const WHOLE = "The darker a word, the more the model looked at it. Point at a word to see its weight.";
const PARTED = "Dark words made the decision, in the sentences with a dark bar. Point at a sentence, or use the arrow keys, to see the weights of its own words.";

export function show(element, data, host = {}) {
  return withPieces(element, data, host, showDocument);
}

function showDocument(root, data, {state, keep, tools, open, pointed}) {
  const weights = data.weights.map(one => readTable(one).values),
    sentences = data.sentence_weights && readTable(data.sentence_weights).values;
  const received = weights.map((own, at) => own.map(weight => weight * (sentences ? Math.sqrt(sentences[at]) : 1)));
  const all = Float32Array.from(received.flatMap(one => [...one])),
    top = usualTop(all, data.scale);
  const told = toldLine(sentences ? PARTED : WHOLE),
    texts = data.sentences.map(words => wordsOf(words));
  const most = sentences ? topOf(largest(sentences)) : 1;
  const bars = texts.map((_, at) =>
    sentences ? [make("span", {class: "weight"}, sentences[at].toFixed(2)), make("span", {class: "bar"})] : [],
  );
  const items = texts.map(({text}, at) =>
    make(
      "div",
      {
        class: "sentence",
        role: "group",
        "aria-label": sentences ? `sentence ${at + 1}, weight ${sentences[at].toFixed(2)}` : "the text",
      },
      ...bars[at],
      text,
    ),
  );
  const starts = data.sentences.map((_, at) => data.sentences.slice(0, at).flat().length); // of sentences, in words
  let ramp,
    shown = null;

  const key = scaleOf(
    topWords(top, largest(all)),
    `weight of words${sentences ? " × √ sentence; at the left: of sentences" : ""}`,
  );
  root.replaceChildren(
    ...(tools.length ? [make("div", {class: "tools"}, ...tools)] : []),
    told.line,
    make("div", {class: "sentences"}, ...items),
    key,
  );

  /** A sentence by its own words, the others by both weights. */
  function shade(at) {
    const own = at === shown,
      values = own ? weights[at] : received[at],
      end = own ? largest(values) || 1 : top;
    texts[at].spans.forEach((span, to) => shadeWord(span, ramp, values[to] / end));
    items[at].classList.toggle("on", own);
  }

  function lookAt(next) {
    if (next === shown) return;
    const before = shown;
    shown = next;
    for (const at of [before, next]) if (at !== null) shade(at);
    if (next === null) told.rest();
    else tellSentence(next);
  }

  function tellSentence(next) {
    const own = weights[next],
      words = strongest(own).flatMap(at => [
        tokenOf(data.sentences[next][at]),
        " ",
        make("span", {class: "number"}, numberOf(own[at])),
        " ",
      ]);
    if (!sentences) told.tell("It looked most at ", ...words);
    else told.tell(make("b", {}, `Sentence ${next + 1}`), " has weight ", make("b", {}, sentences[next].toFixed(2)), "; its words: ", ...words);
  }

  function tellWord(at, to) {
    told.tell(
      tokenOf(data.sentences[at][to]),
      " ",
      make("b", {}, numberOf(weights[at][to])),
      ...(sentences ? [" in its sentence, shaded by ", make("b", {}, numberOf(received[at][to], top))] : []),
    );
  }

  function repaint() {
    ramp = readRamp(root);
    texts.forEach((_, at) => shade(at));
    bars.forEach(([, bar], at) =>
      bar?.style.setProperty("background-color", shadeOf(ramp, sentences[at] / most).fill),
    );
  }

  items.forEach(item =>
    item.addEventListener("pointerleave", () => {
      const focused = items.indexOf(root.ownerDocument.activeElement);
      lookAt(focused < 0 ? null : focused);
      pointed?.(null);
    }),
  );
  items.forEach((item, at) =>
    item.addEventListener("click", event => {
      const to = texts[at].spans.indexOf(event.target);
      if (to >= 0) open?.({table: `weights/${at}`, column: to});
      else if (sentences) open?.({table: "sentence_weights", column: at});
    }),
  );
  items.forEach((item, at) =>
    item.addEventListener("pointerover", event => {
      const to = texts[at].spans.indexOf(event.target);
      lookAt(at);
      if (to < 0) return tellSentence(at);
      tellWord(at, to);
      pointed?.({row: 0, column: starts[at] + to});
    }),
  );
  rove(
    items,
    (at, down, across) => Math.max(0, Math.min(items.length - 1, at + (down || across))),
    at => {
      lookAt(at);
      keep({row: at});
    },
  );
  for (const item of items) item.addEventListener("blur", () => lookAt(null));
  repaint();
  if (Number.isInteger(state.row) && items[state.row]) lookAt(state.row);
  const strong = sentences ? sentences.indexOf(largest(sentences)) : 0;
  if (weights[strong]?.length)
    open?.({table: `weights/${strong}`, column: weights[strong].indexOf(largest(weights[strong])), first: true});
  return {
    /** Another view is pointed at, where this word is. */
    point(place) {
      texts.forEach(({spans}) => spans.forEach(span => span.classList.remove("on")));
      const at = starts.findLastIndex(start => start <= (place?.column ?? -1)),
        to = at < 0 ? -1 : place.column - starts[at];
      lookAt(at < 0 ? null : at);
      if (!texts[at]?.spans[to]) return;
      texts[at].spans[to].classList.add("on");
      tellWord(at, to);
    },
    /** Which word is opened; null: none. */
    mark(place) {
      texts.forEach(({spans}, at) =>
        spans.forEach((span, to) => span.classList.toggle("opened", place?.table === `weights/${at}` && place.column === to)),
      );
    },
    close: onTheme(repaint),
  };
}
