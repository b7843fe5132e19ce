// Two tables of weights on common rows and columns: orange where the second looks more, blue where it looks less.

import {clamp, enter, headingOf, make, numberOf, onTheme, percentOf, readHidden, readTable, tokenOf, toldLine} from "./parts.js";
import {drawCells} from "./cells.js";

export function show(element, data, host = {}) {
  const {rows, columns, top} = data,
    [before, after] = [data.before, data.after].map(table => readTable(table).values),
    hidden = readHidden(data.mask);
  const look = {rows, columns, weights: after.map((weight, at) => weight - before[at]), hidden, top, signed: true};
  const told = toldLine(sentenceOf(data, before, after)),
    stage = make("div", {class: "stage"}),
    root = make("div", {class: "view lined"});
  let drawn,
    roomDrawn = 0,
    row = null,
    column = null,
    kept = false;

  function lookAt(nextRow, nextColumn) {
    if (nextRow === row && nextColumn === column) return;
    [row, column] = [nextRow, nextColumn];
    drawn.point(row, column);
    if (row === null) return told.rest();
    told.tell(...(column === null ? rowWords(data, row, look) : placeWords(data, row, column, before, after, hidden)));
  }

  function lookHere(nextRow, nextColumn) {
    if (nextRow === row && nextColumn === column) return;
    lookAt(nextRow, nextColumn);
    host.pointed?.(row === null && column === null ? null : {row, column});
  }

  const control = {
    hover: (nextRow, nextColumn) => {
      if (!kept) lookHere(nextRow, nextColumn);
    },
    pin(nextRow, nextColumn) {
      kept = nextRow !== null && !(kept && nextRow === row && nextColumn === column);
      lookHere(nextRow, nextColumn);
    },
    step(down, across) {
      kept = true;
      const next = row === null ? (down < 0 || down === Infinity ? rows.length - 1 : 0) : clamp(row + down, rows.length);
      lookHere(next, across ? clamp((column ?? (across > 0 ? -1 : columns.length)) + across, columns.length) : column);
    },
    leave() {
      kept = false;
      lookHere(null, null);
    },
  };

  function draw() {
    roomDrawn = stage.clientWidth;
    drawn = drawCells(stage, look, control);
    drawn.point(row, column);
  }

  enter(element, "difference");
  element.append(...headingOf(data, host), root);
  root.append(told.line, stage, keyOf(data, hidden));
  draw();
  const sized = new ResizeObserver(() => {
    if (stage.clientWidth && stage.clientWidth !== roomDrawn) draw();
  });
  sized.observe(element);
  const stop = onTheme(() => {
    drawn.repaint();
    drawn.point(row, column);
  });
  return {
    point(place) {
      if (!kept) lookAt(place?.row ?? null, place?.column ?? null);
    },
    close() {
      stop();
      sized.disconnect();
    },
  };
}

/** "They differ most where "die" looks at "the": 0.60, then 0.12. On average 23.1 % of the weight lies elsewhere." */
function sentenceOf(data, before, after) {
  const [most] = data.most,
    moved = typeof data.moved === "number" ? ` On average ${percentOf(data.moved)} of a row's weight lies elsewhere.` : "";
  if (!most) return "There is no difference.";
  return make("span", {}, "They differ most where ", ...placeWords(data, ...most, before, after), moved && "·", moved);
}

function placeWords({rows, columns, top, names}, row, column, before, after, hidden = null) {
  const at = row * columns.length + column,
    number = value => make("span", {class: "number"}, numberOf(value, Math.min(top, 1)));
  const place = [tokenOf(rows[row]), " looks at ", tokenOf(columns[column])];
  if (hidden?.[at]) return [...place, " in one of the two only"];
  const which = names[0] === names[1] ? ["first", "then"] : names;
  const said = which.map((name, side) => [`${name} `, number([before, after][side][at])]);
  return [...place, ": ", ...said[0], ...said[1]];
}

/** "die": more at "the" +0.48, less at "cat" −0.30 */
function rowWords({rows, columns, top}, row, {weights}) {
  const own = [...weights.subarray(row * columns.length, (row + 1) * columns.length)],
    order = own.map((_, at) => at).sort((one, other) => Math.abs(own[other]) - Math.abs(own[one]));
  const said = order
    .filter(at => Math.abs(own[at]) >= 0.005 * top)
    .slice(0, 4)
    .flatMap(at => [" ", tokenOf(columns[at]), " ", make("span", {class: "number"}, signed(own[at], top))]);
  return [tokenOf(rows[row]), ...(said.length ? [": most at", ...said] : [" looks at the same places"])];
}

function signed(value, top) {
  return `${value < 0 ? "−" : "+"}${numberOf(Math.abs(value), top)}`;
}

function keyOf({top, names}, hidden) {
  const [first, second] = names[0] === names[1] ? ["the first", "the second"] : names;
  return make(
    "p",
    {class: "key"},
    `−${top} ${first} looks more`,
    make("span", {class: "ramp both"}),
    `+${top} ${second} looks more`,
    ...(hidden
      ? [make("span", {class: "pair"}, make("span", {class: "sign hidden-place"}), "in one of the two only")]
      : []),
  );
}
