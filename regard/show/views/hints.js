// The sentence beside a table of weights: what its rows, columns and colours are, and what can be done with it.

import {TERMS} from "./said.js";
import {queryPlaces} from "./text.js";

/** `look` as `showMatrix` has it, seen in a `way`; `opens`: a click opens a weight; `languages`: of what is read and
    what is written, "" where they have no names; none: it may be one text. */
export function hintOf(look, way, opens, languages) {
  const {rows, columns, rowName, of} = look,
    unit = rowName ? "row" : unitOf(of === "gate" ? columns : [...rows, ...columns]);
  if (of === "gate") return `Each column is a ${unit} that was read, each row a part of the memory; dark lets it through. Point at a cell to see how far its gate is open.`;
  if (rows.length === 1) return `Dark is where the model looked. Point at a ${unit}, or use the arrow keys, to see its weight.`;
  const click = opens && way === "map" ? "opens the weight" : "keeps it";
  return `${SENTENCES[way](look, unit, languages)} Point at a ${unit}, or use the arrow keys, to see where it looks. A click ${click}.`;
}

const SENTENCES = {
  map({rows, columns, rowName, columnName}, unit, [read, written]) {
    if (rowName && columnName) return `Each row is one ${rowName}; dark is where it looked among the ${columnName}.`;
    if (written) return `Each row is a ${unit} that was written in ${written}; dark is where it looked in the ${read} sentence.`;
    const {places, more} = read === undefined ? queryPlaces(columns, rows) : {};
    if (places && !more.length) return `Each row is a ${unit} of the text; dark is where it looked in the same text.`;
    if (places?.[0] === 0)
      return `Each row is a ${unit} that was read; dark is where it looked among those before it.`;
    return `Each row is a ${unit} that the model had to find; dark is where it looked for it.`;
  },
  links: (_, unit) =>
    `Each line leads from a ${unit} at the left to what it looked at, at the right; a thick line is a large weight.`,
  text: ({rows, columns}, unit) =>
    queryPlaces(columns, rows).places
      ? `The darker a ${unit}, the more the others looked at it on average.`
      : `What looks stands above, what it looks at below: the darker, the more on average.`,
};

/** What a token is called: a letter or a digit is no word. */
function unitOf(tokens) {
  const words = tokens.filter(token => !TERMS[token]);
  return words.every(token => [...token].length === 1) ? "character" : "word";
}
