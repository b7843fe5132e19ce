// Two looks over one image: orange where the second looks more, blue where it looks less, over the image in grey.

import {clamp, enter, make, onTheme, percentOf, readRamp, sliderOf, steer, tellPlace, toldLine} from "./parts.js";
import {loadImage, placeWords} from "./image.js";

const SIDE = 640, // pixels on the longer side
  STRENGTH = 0.85, // opacity of the largest difference
  FADED = 0.55; // how far the image below is

/** `data.looks`: the two, each {name, shares, rows, columns}; `data.names`: what they are called. */
export function show(element, data, host = {}) {
  const {rows, columns, values} = changeOf(...data.looks),
    top = Math.max(...values.map(Math.abs)) || 1,
    most = values.findIndex(value => Math.abs(value) === top);
  const told = toldLine(sentenceOf());
  const stage = make("canvas", {"aria-hidden": "true"}),
    patch = make("div", {class: "patch", hidden: true});
  const places = sliderOf("place of the difference", rows * columns, "no place is chosen");
  const frame = make("div", {class: "frame", ...places}, stage, patch);
  const key = make(
    "p",
    {class: "key"},
    `−${percentOf(top)} ${data.names[0]} looks more`,
    make("span", {class: "ramp both"}),
    `+${percentOf(top)} ${data.names[1]} looks more`,
  );
  let image = null,
    place = null;

  function sentenceOf() {
    if (most < 0 || !values[most]) return "There is no difference.";
    const moved = values.reduce((sum, value) => sum + Math.abs(value), 0) / 2;
    return make("span", {}, `They differ most at ${wordsOf(most)} · ${percentOf(moved)} of the weight lies elsewhere.`);
  }

  function wordsOf(cell) {
    const [before, after] = data.looks.map(look => percentOf(shareAt(look, cell, rows, columns)));
    return `${placeWords(cell, columns)}: ${data.names[0]} ${before}, ${data.names[1]} ${after}`;
  }

  function lookAt(left, above) {
    place = [left, above];
    const row = clamp(Math.floor(above * rows), rows),
      column = clamp(Math.floor(left * columns), columns);
    for (const [name, value] of [["left", column / columns], ["top", row / rows], ["width", 1 / columns], ["height", 1 / rows]])
      patch.style.setProperty(name, `${100 * value}%`);
    patch.hidden = false;
    told.tell(wordsOf(row * columns + column));
    tellPlace(frame, row * columns + column, wordsOf(row * columns + column));
  }

  function lookAway() {
    place = null;
    patch.hidden = true;
    told.rest();
  }

  function lookHere(left, above) {
    lookAt(left, above);
    host.pointed?.({left, above});
  }

  function leave() {
    lookAway();
    host.pointed?.(null);
  }

  function paint() {
    if (image) paintChange(stage, image, {rows, columns, values, top}, readRamp(element, "--diverging"));
  }

  frame.addEventListener("pointermove", event => {
    const box = stage.getBoundingClientRect(),
      x = (event.clientX - box.left) / box.width,
      y = (event.clientY - box.top) / box.height;
    if (x >= 0 && x < 1 && y >= 0 && y < 1) lookHere(x, y);
  });
  frame.addEventListener("pointerleave", leave);
  steer(
    frame,
    (down, across) => {
      const [x, y] = place ?? [0.5, 0.5],
        inside = part => Math.min(0.999, Math.max(0, part));
      lookHere(inside(x + across / columns), inside(y + Math.max(-1, Math.min(1, down)) / rows));
    },
    leave,
  );
  enter(element, "image_difference");
  element.append(told.line, make("div", {class: "large"}, frame, key));
  loadImage(data.image).then(found => {
    image = found;
    paint();
  });
  const unwatch = onTheme(paint);
  return {
    point(other) {
      if (other && "left" in other) lookAt(other.left, other.above);
      else lookAway();
    },
    close: unwatch,
  };
}

/** What the second has more, on the finer grid of the two. */
function changeOf(first, second) {
  const rows = Math.max(first.rows, second.rows),
    columns = Math.max(first.columns, second.columns);
  const values = Array.from({length: rows * columns}, (_, cell) => shareAt(second, cell, rows, columns) - shareAt(first, cell, rows, columns));
  return {rows, columns, values};
}

/** The share of a look in a cell of another grid. */
function shareAt(look, cell, rows, columns) {
  const row = Math.floor((Math.floor(cell / columns) * look.rows) / rows),
    column = Math.floor(((cell % columns) * look.columns) / columns);
  return (look.shares[row * look.columns + column] * look.rows * look.columns) / (rows * columns);
}

function paintChange(canvas, {picture, width, height}, {rows, columns, values, top}, ramp) {
  const small = document.createElement("canvas"),
    pen = canvas.getContext("2d"),
    ratio = SIDE / Math.max(width, height);
  [small.width, small.height] = [columns, rows];
  const tiny = small.getContext("2d"),
    cells = tiny.createImageData(columns, rows);
  values.forEach((value, at) => {
    const from = 3 * (value < 0 ? 32 : 223); // of the ramp: well below and above its middle
    cells.data.set([...ramp.subarray(from, from + 3), Math.round((255 * STRENGTH * Math.abs(value)) / top)], 4 * at);
  });
  tiny.putImageData(cells, 0, 0);
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
  for (const [fill, opacity, way] of [
    ["#808080", 1, "saturation"],
    [`rgb(${ramp.subarray(3 * 128, 3 * 129).join(",")})`, FADED, "source-over"],
  ]) {
    pen.globalCompositeOperation = way;
    pen.globalAlpha = opacity;
    pen.fillStyle = fill;
    pen.fillRect(0, 0, canvas.width, canvas.height);
  }
  pen.globalAlpha = 1;
  pen.drawImage(small, 0, 0, canvas.width, canvas.height);
}
