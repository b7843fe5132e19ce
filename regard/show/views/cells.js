// One table of weights as a map: a cell for each row and column, words beside and above them.

import {
  colourOf,
  label,
  make,
  paintCells,
  pointIn,
  readColour,
  readRamp,
  roomBelow,
  shadeWord,
  sliderOf,
  steer,
  tellPlace,
  tokenOf,
} from "./parts.js";

const LARGEST = 52,
  LEGIBLE = 14,
  TILT = 55; // pixels of a cell, pixels with labels, degrees
const USUAL = 36,
  BELOW = 56; // pixels of a cell that is larger only where all fit into the window; of the key below them
const TALL = 20; // pixels of a line of labels
const LABELLED = 130; // rows and columns: more have no labels
const ROOM = 900; // pixels of a map without labels
const SHARP = 10; // pixels of a cell from which on it is drawn as such, else as one pixel

/** Draws the look into `stage`; `control` is told where one points. Returns {point(row, column), mark(place), repaint()}. */
export function drawCells(stage, look, control) {
  const {rows, columns} = look,
    labelled = Math.max(rows.length, columns.length) <= LABELLED;
  const sizes = measure(stage, look, labelled),
    {cell} = sizes;
  const width = cell * columns.length,
    height = cell * rows.length;
  const cells = make("div", {class: "cells"}),
    canvas = make("canvas", {"aria-hidden": "true"});
  const veils = [0, 1].map(() => make("div", {class: "veil"})),
    ring = make("div", {class: "ring", hidden: true}),
    opened = make("div", {class: "ring opened", hidden: true});
  const above = make("div", {class: "above"}),
    side = make("div", {class: "side"});
  const grid = make("div", {class: `map${sizes.upright ? " upright" : ""}`}, make("div", {class: "corner"}), above, side, cells);
  const scroll = make(
    "div",
    {class: "scroll", "aria-orientation": "vertical", ...sliderOf("row of the map", rows.length, "no row is chosen")},
    grid,
  );
  const names = labelled ? columns.map((name, at) => columnOf(name, at, sizes)) : [];
  const sides = labelled ? rows.map(name => rowOf(name, sizes)) : [];
  let ramp;
  above.style.setProperty("height", `${sizes.above}px`);
  above.style.setProperty("padding-right", `${width + sizes.beyond}px`);
  grid.style.setProperty("font-size", `${sizes.font}px`);
  for (const part of [canvas, cells]) {
    part.style.setProperty("width", `${width}px`);
    part.style.setProperty("height", `${height}px`);
  }
  above.append(...names);
  side.append(...sides);
  cells.append(canvas, ...veils, opened, ring);
  stage.replaceChildren(...axesOf(look), scroll);

  function repaint() {
    ramp = readRamp(stage, look.signed ? "--diverging" : "--ramp");
    const paint = cell >= SHARP ? paintSharp : paintSmall;
    paint(canvas, look, cell, ramp, stage);
  }

  function point(row, column) {
    const asked = row !== null,
      first = asked ? row * cell : 0;
    const edges = asked
      ? [
          [0, first],
          [first + cell, height - first - cell],
        ]
      : [
          [0, 0],
          [0, 0],
        ];
    veils.forEach((veil, at) => {
      veil.style.setProperty("top", `${edges[at][0]}px`);
      veil.style.setProperty("height", `${edges[at][1]}px`);
    });
    names.forEach((name, at) => {
      const place = row * columns.length + at;
      shadeWord(name, ramp, asked ? levelOf(look, place) : 0, Boolean(asked && look.signed && look.hidden?.[place]));
    });
    sides.forEach((name, at) => name.classList.toggle("on", at === row));
    ring.hidden = !asked || column === null || cell < 4;
    ring.style.setProperty("transform", `translate(${(column ?? 0) * cell}px, ${first}px)`);
    tellPlace(scroll, row, asked ? `${row + 1} of ${rows.length}: ${label(rows[row])}` : "no row is chosen");
  }

  for (const one of [ring, opened]) {
    for (const name of ["width", "height"]) one.style.setProperty(name, `${cell}px`);
    one.style.setProperty("top", "0");
    one.style.setProperty("left", "0");
  }

  /** Which weight is opened; null: none. */
  function mark(place) {
    opened.hidden = !place || cell < 4;
    if (place) opened.style.setProperty("transform", `translate(${place.column * cell}px, ${place.row * cell}px)`);
  }

  const placeOf = event => {
    const [column, row] = pointIn(canvas, event).map(pixels => Math.floor(pixels / cell));
    return [row >= 0 && row < rows.length ? row : null, column >= 0 && column < columns.length ? column : null];
  };
  cells.addEventListener("pointermove", event => control.hover(...placeOf(event)));
  side.addEventListener("pointermove", event => control.hover(placeOf(event)[0], null));
  scroll.addEventListener("pointerleave", () => control.hover(null, null));
  for (const part of [cells, side]) part.addEventListener("click", event => control.pin(...placeOf(event)));
  steer(scroll, control.step, control.leave);
  repaint();
  return {point, mark, repaint, focus: () => scroll.focus()};
}

/** The sizes of a map in the room that there is. */
function measure(stage, {rows, columns}, labelled) {
  const room = Math.max(260, (stage.clientWidth || 720) - 8),
    count = Math.max(rows.length, columns.length);
  if (!labelled)
    return {cell: Math.max(1, Math.floor(Math.min(room, ROOM) / count)), above: 0, beyond: 0, left: 0, font: 12};
  const pen = document.createElement("canvas").getContext("2d"),
    family = getComputedStyle(stage).fontFamily;
  const widest = (names, font) => {
    pen.font = `600 ${font}px ${family}`;
    return Math.max(...names.map(name => pen.measureText(label(name)).width)) + 10;
  };
  const lean = (TILT * Math.PI) / 180,
    rough = widest(rows, 13);
  const wide = Math.floor((room - rough - 12) / columns.length),
    high = Math.floor((roomBelow(stage) - 2 * TALL - BELOW) / rows.length);
  const cell = Math.max(LEGIBLE, Math.min(wide, high >= LEGIBLE ? Math.min(LARGEST, high) : USUAL));
  const font = cell >= 18 ? 13.5 : 11,
    long = widest(columns, font);
  const upright = long - 10 <= 1.05 * cell;
  return {
    cell,
    font,
    upright,
    left: widest(rows, font),
    above: upright ? font * 1.6 + 4 : Math.ceil(long * Math.sin(lean) + font * Math.cos(lean) + 8),
    beyond: upright ? 0 : Math.max(0, Math.ceil(long * Math.cos(lean)) - cell / 2),
  };
}

/** Where a weight lies on the ramp, from 0 to 1; of a signed look 0 lies in the middle. */
function levelOf({weights, top, signed}, at) {
  return signed ? weights[at] / top / 2 + 0.5 : weights[at] / top;
}

/** What rows and columns are, where that is known. */
function axesOf({rowName, columnName}) {
  const names = [rowName && `↓ ${label(rowName, 60)}`, columnName && `→ ${label(columnName, 60)}`].filter(Boolean);
  return names.length ? [make("p", {class: "axis"}, names.join("   "))] : [];
}

function columnOf(name, at, {cell, upright}) {
  const made = make("span", {class: "column", title: label(name, 200)}, tokenOf(name));
  made.style.setProperty("left", `${upright ? at * cell : (at + 0.5) * cell}px`);
  if (upright) made.style.setProperty("width", `${cell}px`);
  else made.style.setProperty("transform", `rotate(-${TILT}deg)`);
  return made;
}

function rowOf(name, {cell}) {
  const made = make("div", {class: "row", title: label(name, 200)}, tokenOf(name));
  made.style.setProperty("height", `${cell}px`);
  return made;
}

/** Cells of their own with a gap between them; hidden ones are hatched, windows outlined, centres dotted. */
function paintSharp(canvas, look, cell, ramp, stage) {
  const {rows, columns, weights, hidden} = look,
    fine = Math.min(2, window.devicePixelRatio || 1);
  const gap = cell >= 18 ? 1 : 0,
    pen = canvas.getContext("2d");
  canvas.width = fine * cell * columns.length;
  canvas.height = fine * cell * rows.length;
  pen.scale(fine, fine);
  pen.lineWidth = 1;
  pen.strokeStyle = colourOf(stage, "--hatch");
  const grey = colourOf(stage, "--hidden");
  for (let at = 0; at < weights.length; at++) {
    const x = (at % columns.length) * cell,
      y = Math.floor(at / columns.length) * cell;
    const from = 3 * Math.round(255 * Math.max(0, Math.min(1, levelOf(look, at))));
    pen.fillStyle = hidden?.[at] ? grey : `rgb(${ramp[from]},${ramp[from + 1]},${ramp[from + 2]})`;
    pen.fillRect(x, y, cell - gap, cell - gap);
    if (!hidden?.[at]) continue;
    pen.beginPath();
    pen.moveTo(x, y + cell - gap);
    pen.lineTo(x + cell - gap, y);
    pen.stroke();
  }
  if (look.centres) paintMarks(pen, look, cell, stage);
}

function paintMarks(pen, {centres, span, columns}, cell, stage) {
  const mark = colourOf(stage, "--mark"),
    edge = colourOf(stage, "--paper");
  centres.forEach((centre, row) => {
    if (centre === null || Number.isNaN(centre)) return;
    const middle = Math.round(centre),
      first = Math.max(0, middle - span),
      last = Math.min(columns.length - 1, middle + span);
    const box = [first * cell + 2, row * cell + 2, (last - first + 1) * cell - 5, cell - 5];
    const x = (centre + 0.5) * cell,
      y = (row + 0.5) * cell;
    for (const [colour, wide] of [
      [edge, 4],
      [mark, 1.8],
    ]) {
      pen.strokeStyle = colour;
      pen.lineWidth = wide;
      if (span && first <= last) pen.strokeRect(...box);
    }
    if (centre < -0.5 || centre > columns.length) return;
    pen.beginPath();
    pen.arc(x, y, 0.17 * cell, 0, 7);
    pen.fillStyle = mark;
    pen.strokeStyle = edge;
    pen.stroke();
    pen.fill();
  });
}

function paintSmall(canvas, look, cell, ramp, stage) {
  const {rows, columns, hidden} = look;
  paintCells(
    canvas,
    rows.length,
    columns.length,
    at => levelOf(look, at),
    ramp,
    hidden && (at => hidden[at]),
    readColour(colourOf(stage, "--hidden")),
  );
}
