// One table of weights in the ways to see it: as a map, as links, as shaded text. What is pointed at is told in words.

import {
  choicesOf,
  clamp,
  largest,
  make,
  numberOf,
  onTheme,
  scaleOf,
  strongest,
  toldLine,
  tokenOf,
  topWords,
} from "./parts.js";
import {drawCells} from "./cells.js";
import {hintOf} from "./hints.js";
import {drawLinks} from "./links.js";
import {TERMS} from "./said.js";
import {drawText, meanOf} from "./text.js";

const WAYS = {map: drawCells, links: drawLinks, text: drawText};
const NAMES = {map: "Map", links: "Links", text: "Text"};
const PLAIN = 0.95; // a weight that leaves nothing to see in its row
const LONG = 60; // columns: more are first shown as text
const LINKED = 200; // tokens: more get no links

/** The ways in which a look can be shown, the first one first. */
function waysOf({rows, columns, of}) {
  if (of === "gate") return ["map"];
  const linked = Math.max(rows.length, columns.length) <= LINKED ? ["links"] : [];
  return columns.length > LONG ? ["text", "map", ...linked] : ["map", ...linked, "text"];
}

/** `look` is {rows, columns, weights, hidden, top, scale, of, centres, span, rowName, columnName}: names, and tables
    row by row. `state` has `way` and `row`; `keep` is told when they change; `tools` stand beside our own. */
export function showMatrix(element, look, {state, keep, tools = [], ways = waysOf(look), open = null, pointed = null, languages = null}) {
  const {rows, columns, weights, hidden} = look;
  const stage = make("div", {class: "stage"}),
    key = make("div", {});
  let drawn,
    roomDrawn = 0,
    way = ways.includes(state.way) ? state.way : ways[0];
  const hint = () => hintOf(look, way, Boolean(open), languages?.(look.table?.site) ?? []),
    told = toldLine(hint());
  let row = null,
    column = null,
    opened = null,
    kept = Number.isInteger(state.row) && state.row >= 0 && state.row < rows.length;

  const choices =
    ways.length > 1
      ? [
          choicesOf(
            "shown as",
            ways.map(one => [one, NAMES[one]]),
            way,
            next => {
              way = next;
              keep({way});
              draw();
            },
          ),
        ]
      : [];

  function lookAt(nextRow, nextColumn) {
    if (nextRow === row && nextColumn === column) return;
    [row, column] = [nextRow, nextColumn];
    drawn.point(row, column);
    if (row !== null) told.tell(...lookWords(look, row, column));
    else if (column !== null) told.tell(...columnWords(look, column));
    else told.rest(hint());
  }

  /** As `lookAt`, by the person's own hand or keys. */
  function lookHere(nextRow, nextColumn) {
    if (nextRow === row && nextColumn === column) return;
    lookAt(nextRow, nextColumn);
    pointed?.(row === null && column === null ? null : {row, column});
  }

  function pin(nextRow, nextColumn) {
    kept = nextRow !== null && !(kept && nextRow === row);
    keep({row: kept ? nextRow : null});
    lookHere(nextRow, nextColumn);
    if (nextRow !== null && nextColumn !== null) openAt(nextRow, nextColumn);
  }

  /** How this weight came about. `first`: nobody asked for it yet. */
  function openAt(row, column, first = false) {
    if (!open || hidden?.[row * columns.length + column]) return;
    if (!first) keep({cell: [row, column]});
    open({
      ...look.table,
      row,
      column,
      first,
      ...(look.of === "gate" ? {gate: weights[row * columns.length + column], names: [rows[row], columns[column]]} : {}),
    });
  }

  const control = {
    pin,
    hover: (nextRow, nextColumn) => {
      if (!kept) lookHere(nextRow, nextColumn);
    },
    step(down, across) {
      kept = true;
      const next =
        row === null ? (down === -1 || down === Infinity ? rows.length - 1 : 0) : clamp(row + down, rows.length);
      const beside = across
        ? clamp((column ?? (across > 0 ? -1 : columns.length)) + across, columns.length)
        : column;
      lookHere(next, beside);
      keep({row: next});
    },
    leave() {
      kept = false;
      keep({row: null});
      lookHere(null, null);
    },
    scaled: (top, own) => drawKey(top, largest(own)),
  };

  function drawKey(top, most) {
    const signs = [],
      marked = look.centres && way === "map";
    const explain = (sign, words) =>
      signs.push(make("span", {class: "pair"}, make("span", {class: `sign ${sign}`}), words));
    if (marked) explain("centre", "centre p_t");
    if (marked && look.span) explain("window", `window ± ${look.span}`);
    if (hidden) explain("hidden-place", "may not be looked at");
    key.replaceChildren(scaleOf(topWords(top, most), look.of ?? "weight", ...signs));
  }

  function draw() {
    roomDrawn = stage.clientWidth;
    drawKey(look.top, largest(weights));
    drawn = WAYS[way](stage, look, control);
    const [nextRow, nextColumn] = [row, column];
    row = column = undefined;
    lookAt(nextRow, nextColumn);
    drawn.mark?.(opened);
  }

  element.replaceChildren(make("div", {class: "tools"}, ...choices, ...tools), told.line, stage, key);
  stage.addEventListener("keydown", event => {
    if (event.key === "Enter" && row !== null && column !== null) openAt(row, column);
  });
  if (kept) row = state.row;
  draw();
  openFirst();
  const sized = new ResizeObserver(() => {
    if (stage.clientWidth && stage.clientWidth !== roomDrawn) draw();
  });
  sized.observe(element);

  /** The weight that an address names, else the largest one. */
  function openFirst() {
    const [asked, at] = Array.isArray(state.cell) ? state.cell : [];
    if (rows[asked] !== undefined && columns[at] !== undefined) return openAt(asked, at, true);
    const isTelling = (weight, place) =>
      weight < PLAIN && !TERMS[rows[Math.floor(place / columns.length)]] && !TERMS[columns[place % columns.length]];
    const telling = weights.map((weight, place) => (isTelling(weight, place) ? weight : 0));
    const most = strongest(telling, 1)[0] ?? strongest(weights, 1)[0];
    if (most !== undefined && look.of !== "gate") openAt(Math.floor(most / columns.length), most % columns.length, true);
  }

  const stop = onTheme(() => {
    drawn.repaint();
    drawn.point(row, column);
  });
  return {
    /** Another view is pointed at, where this place is. */
    point(place) {
      if (kept) return;
      lookAt(place?.row ?? null, place?.column ?? null);
    },
    /** Which weight is opened; null: none. */
    mark(place) {
      const {table, head} = look.table ?? {};
      opened = place && place.table === table && place.head === head ? place : null;
      drawn.mark?.(opened);
    },
    close() {
      stop();
      sized.disconnect();
    },
  };
}

/** "die" looks at "the" 0.60, "cat" 0.20 */
function lookWords(look, row, column) {
  const {rows, columns, weights, hidden, top, of} = look,
    start = row * columns.length;
  const own = weights.subarray(start, start + columns.length),
    number = value => make("span", {class: "number"}, numberOf(value, top));
  const found = strongest(own),
    list = found.flatMap(at => [...placed(columns, at), " ", number(own[at]), " "]);
  const verb = of === "gate" ? " is open at " : " looks at ";
  const said = [
    tokenOf(rows[row]),
    ...(list.length ? [verb, ...list] : [of === "gate" ? " is closed" : " looks at nothing"]),
  ];
  if (column === null || column === found[0]) return said;
  const there = hidden?.[start + column] ? "may not be looked at" : number(own[column]);
  return [...said, " · here ", ...placed(columns, column), " ", there];
}

/** A word; of a long text, which has many that are alike, also its place. */
function placed(names, at) {
  return [tokenOf(names[at]), ...(names.length > LINKED ? [` (${at + 1})`] : [])];
}

/** Who looks at a column: "the" is looked at by "die" 0.60, and on average 0.12 */
function columnWords(look, column) {
  const {rows, columns, weights, top} = look,
    own = rows.map((_, row) => weights[row * columns.length + column]);
  const number = value => make("span", {class: "number"}, numberOf(value, top));
  if (rows.length === 1) return [tokenOf(columns[column]), " ", number(own[0])];
  const list = strongest(own, 4).flatMap(row => [tokenOf(rows[row]), " ", number(own[row]), " "]);
  return [
    tokenOf(columns[column]),
    ...(list.length ? [" is looked at by ", ...list] : [" is looked at by none"]),
    " · on average ",
    number(meanOf(look)[column]),
  ];
}
