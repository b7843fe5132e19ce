// Words of a running text on shades: spacing, queries among them, and one table of weights as a shaded text.

import {clean, make, readRamp, shadeWord, sliderOf, steer, tellPlace, usualTop} from "./parts.js";

const CLOSING = /^(?![&*/\\@#%§])[\p{Pe}\p{Pf}\p{Po}]+$/u,
  OPENING = /^[\p{Ps}\p{Pi}]+$/u;
const AFTER = /^(s|t|d|m|ll|re|ve)$/i, // of English
  BEFORE = /^(l|d|j|m|t|s|n|c|qu)$/i; // and French
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tibetan}\u3000-\u303f\uff00-\uffef]/u;

/** The gap before each word. Pieces and characters carry their own spaces; words get gaps, but not where punctuation
    clings to its neighbour or a script is written without spaces. */
function spell(words) {
  const own = words.some(word => word.startsWith(" ") || word.startsWith("▁")) || words.includes("\n");
  let earlier = "",
    before = "",
    quoting = false;
  return words.map(word => {
    let side = word;
    if (word === '"') {
      // opening and closing by turns
      quoting = !quoting;
      side = quoting ? "“" : "”";
    }
    const gap = !own && before && parted(before, side) && !elided(earlier, before, word) ? " " : "";
    [earlier, before] = [before, side];
    return {gap, text: clean(own ? word.replaceAll("▁", " ") : word) || "∅", ends: word.includes("\n")};
  });
}

/** Whether an apostrophe joins its neighbours: he ' s, l ' homme; but not dogs ' bones. */
function elided(earlier, before, word) {
  return /^['’ʼ]$/u.test(before) && /\p{L}$/u.test(earlier) && (AFTER.test(word) || BEFORE.test(earlier));
}

function parted(before, word) {
  if (before.endsWith("\n") || !word || CLOSING.test(word) || OPENING.test(before)) return false;
  return !(UNSPACED.test([...before].at(-1)) && UNSPACED.test([...word][0]));
}

/** A paragraph and the spans of its words. */
export function wordsOf(words, kind = "") {
  const spaced = spell(words),
    tight = spaced.length > 1 && spaced.every(({gap}) => !gap) ? " tight" : "";
  const text = make("p", {class: `words ${kind}${tight}`, dir: "auto"}),
    spans = [];
  for (const {gap, text: shown, ends} of spaced) {
    const span = make("span", {class: "word"}, shown);
    spans.push(span);
    if (gap) text.append(gap);
    text.append(span);
    if (ends) text.append(make("br"));
  }
  return {text, spans};
}

/** Which word of the text each query is, if the queries are words of the same text: all of them (an encoder), or those
    that were written, each a place after the last that it could look at (a language model). `more`: words that are
    missing at the end of the text. places null: the queries are another text. */
export function queryPlaces(words, queries) {
  const same = (first, second) => first.length === second.length && first.every((word, at) => word === second[at]);
  if (queries.length > 1) {
    if (same(words, queries)) return {places: words.map((_, at) => at), more: []};
    const first = words.length - queries.length + 1;
    if (first >= 0 && same(words.slice(first), queries.slice(0, -1)))
      return {places: queries.map((_, at) => first + at), more: queries.slice(-1)};
  }
  return {places: null, more: []};
}

/** What each word receives on average from the queries that may look at it. */
export function meanOf({rows, columns, weights, hidden}) {
  const mean = new Float32Array(columns.length),
    seen = new Float32Array(columns.length);
  weights.forEach((weight, at) => {
    mean[at % columns.length] += weight;
    if (!hidden?.[at]) seen[at % columns.length] += 1;
  });
  return mean.map((sum, at) => sum / Math.max(1, hidden ? seen[at] : rows.length));
}

/** As `drawCells`: the columns as a text, shaded by where a row looks, or by the mean of all rows. */
export function drawText(stage, look, control) {
  const {rows, columns, weights, hidden} = look,
    {places, more} = queryPlaces(columns, rows);
  const {text, spans} = wordsOf([...columns, ...more]),
    words = spans.slice(0, columns.length);
  const apart = !places && rows.length > 1 ? wordsOf(rows, "asked") : null;
  const asking = places ? places.map(at => spans[at]) : (apart?.spans ?? []);
  const numbers = new Map(asking.map((span, row) => [span, row])),
    mean = meanOf(look);
  const box = make("div", {}, ...(apart ? [apart.text] : []), text);
  let ramp,
    shown = null,
    marked = null;
  if (asking.length) {
    for (const [name, value] of Object.entries(sliderOf("word that looks", rows.length, "mean of all words")))
      box.setAttribute(name, value);
    steer(box, (down, across) => control.step(down || across, 0), control.leave);
  }
  for (const span of asking) span.classList.add("asks");
  stage.replaceChildren(box);

  function point(row) {
    shown = row;
    const start = row * columns.length,
      own = row === null ? mean : weights.subarray(start, start + columns.length);
    const top = row === null || look.scale === undefined ? usualTop(own, look.scale) : look.top;
    words.forEach((word, at) =>
      shadeWord(word, ramp, own[at] / top, row === null ? false : Boolean(hidden?.[start + at])),
    );
    marked?.classList.remove("on");
    marked = row === null ? null : asking[row];
    marked?.classList.add("on");
    control.scaled(top, own);
    if (!asking.length) return;
    tellPlace(box, row, row === null ? "mean of all words" : `${row + 1} of ${rows.length}: ${clean(rows[row])}`);
  }

  function repaint() {
    ramp = readRamp(stage);
    point(shown);
  }

  /** A word that does not ask tells what it receives. */
  const placeOf = event => {
    const span = event.target.closest?.(".word"),
      row = numbers.get(span) ?? null,
      column = words.indexOf(span);
    return [row, column < 0 ? null : column];
  };
  box.addEventListener("pointerover", event => control.hover(...placeOf(event)));
  box.addEventListener("pointerleave", () => control.hover(null, null));
  box.addEventListener("click", event => control.pin(...placeOf(event)));
  repaint();
  return {point, repaint, focus: () => box.focus()};
}
