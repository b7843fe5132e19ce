// An image in its colours, seen as far as it is looked at: one look large, all looks as small buttons beside it.

import {
  clamp,
  clean,
  colourOf,
  make,
  onTheme,
  percentOf,
  readColour,
  rove,
  sliderOf,
  steer,
  tellPlace,
  termOf,
  toggleOf,
  tokenOf,
  toldLine,
} from "./parts.js";

const STRENGTH = 0.85,
  SHARP_BELOW = 100; // how far a place without weight is faded; pixels of an image that is not smoothed
const THUMB = 132,
  LARGE = 880; // pixels on the longer side
const NAMED = 60; // characters of the name of a look
const PAUSE = 900; // milliseconds of a look while they play
const ALONE = 0.999; // a place with this share was chosen alone: hard attention

/** A map as shares of its sum, with what is said of it. */
export function sharesOf(weights, rows, columns) {
  const sum = weights.reduce((total, weight) => total + weight, 0) || 1,
    shares = weights.map(weight => weight / sum);
  let place = 0;
  shares.forEach((share, at) => {
    if (share > shares[place]) place = at;
  });
  return {shares, rows, columns, place, most: shares[place], alone: shares.length > 1 && shares[place] >= ALONE};
}

/** Whether one place is looked at more than the others. */
function isUneven({most, rows, columns}) {
  return most > 0 && most > 1.001 / (rows * columns);
}

/** The image with its size. Without one a plain square. */
export async function loadImage(url) {
  const picture = new Image();
  if (url) {
    picture.src = url;
    await picture.decode().catch(() => null);
  }
  const {naturalWidth: width, naturalHeight: height} = picture;
  if (width) return {picture, width, height};
  const plain = document.createElement("canvas"),
    pen = plain.getContext("2d");
  plain.width = plain.height = 64;
  pen.fillStyle = "#7f8ea3";
  pen.fillRect(0, 0, 64, 64);
  return {picture: plain, width: 64, height: 64};
}

/** The look whose weight is least spread out, and through an open gate: the most telling one. */
function mostTelling(looks) {
  const sharp = looks.map(({most, gate}) => most * (gate ?? 1));
  return sharp.indexOf(Math.max(...sharp));
}

/** The image under a veil that opens where the look goes; sharp edges around a place that was chosen alone. `framed`: a
    frame around the place that is looked at most. */
function paintLook(canvas, {picture, width, height}, look, top, veil, strength, side, framed) {
  const small = document.createElement("canvas"),
    pen = canvas.getContext("2d"),
    ratio = side / Math.max(width, height);
  small.width = look.columns;
  small.height = look.rows;
  const tiny = small.getContext("2d"),
    image = tiny.createImageData(look.columns, look.rows);
  look.shares.forEach((share, at) => {
    image.data.set([...veil, Math.round(255 * strength * (1 - Math.min(1, share / top)))], 4 * at);
  });
  tiny.putImageData(image, 0, 0);
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  pen.imageSmoothingEnabled = Math.max(width, height) >= SHARP_BELOW;
  pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
  pen.imageSmoothingEnabled = !look.alone;
  pen.imageSmoothingQuality = "high";
  pen.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (!look.alone && !(framed && isUneven(look))) return;
  const wide = canvas.width / look.columns,
    high = canvas.height / look.rows;
  for (const [colour, line] of [
    ["#000000", side / (look.alone ? 70 : 100)],
    ["#ffffff", side / (look.alone ? 140 : 200)],
  ]) {
    pen.strokeStyle = colour;
    pen.lineWidth = Math.max(1, line);
    pen.strokeRect((look.place % look.columns) * wide, Math.floor(look.place / look.columns) * high, wide, high);
  }
}

/** `groups` is [{title, looks}], a look is {name, shares, rows, columns, place, most, alone, gate}; `top` is the share
    of the brightest colour, null: of each look its own; `topText` says so; `more`: what else is drawn. `telling`: the most telling look is shown first. */
export function showImages(root, {url, groups, top, topText, more = [], hint, telling = false}, {state, keep, tools = [], open = null, pointed = null, looked = null}) {
  const looks = groups.flatMap(group => group.looks),
    told = toldLine(hint);
  const stage = make("canvas", {"aria-hidden": "true"}),
    patch = make("div", {class: "patch", hidden: true});
  const places = sliderOf("patch of the image", 1, "no patch is chosen");
  const frame = make("div", {class: "frame", ...places}, stage, patch);
  const name = make("p", {class: "sub shown"}),
    canvases = looks.map(() => make("canvas", {"aria-hidden": "true"}));
  const notes = looks.map(look => make("span", {class: "small"}, noteOf(look)));
  const buttons = looks.map((look, at) =>
    make(
      "button",
      {type: "button", class: "thumb", "aria-pressed": "false", title: clean(look.title ?? look.name)},
      canvases[at],
      tokenOf(look.name, NAMED),
      notes[at],
      ...gateOf(look.gate),
    ),
  );
  const slider = make("input", {
    type: "range",
    min: 0,
    max: 100,
    value: Math.round(100 * (typeof state.strength === "number" ? state.strength : STRENGTH)),
  });
  const first = Number.isInteger(state.look) ? state.look : telling ? mostTelling(looks) : 0;
  let at = looks.length ? clamp(first, looks.length) : -1;
  let image = null,
    place = null,
    veil,
    timer = null;

  const play = toggleOf("Play", false, playing => {
    clearInterval(timer);
    timer = playing ? setInterval(() => choose((at + 1) % looks.length), PAUSE) : null;
  });
  const sections = groups.map(({title, looks: own}) =>
    make(
      "section",
      {},
      ...(title ? [make("p", {class: "sub", dir: "auto"}, clean(title))] : []),
      make("div", {class: "thumbs"}, ...buttons.filter((_, number) => own.includes(looks[number]))),
    ),
  );
  const key = make("p", {class: "key"}, "0", make("span", {class: "ramp veil-ramp"}), topText);
  const note = make("p", {class: "note"}, "What was looked at keeps its colours, the rest is faded; a frame is around the place with most.", ...more);
  root.replaceChildren(
    make(
      "div",
      {class: "tools"},
      ...(looks.length > 1 ? [play] : []),
      make("label", {class: "field"}, "Fade the rest", slider),
      ...tools,
    ),
    told.line,
    make(
      "div",
      {class: "side-by-side"},
      make("div", {class: "large"}, name, frame, key, note),
      make("div", {class: "strip"}, ...sections),
    ),
  );

  function paint() {
    if (!image) return; // it is painted once it is there
    veil = readColour(colourOf(root, "--veil"));
    root.classList.add("painted");
    looks.forEach((look, number) =>
      paintLook(canvases[number], image, look, top ?? look.most, veil, slider.value / 100, THUMB, false),
    );
    paintStage();
  }

  function paintStage() {
    if (!image || at < 0) return;
    paintLook(stage, image, looks[at], top ?? looks[at].most, veil, slider.value / 100, LARGE, true);
  }

  function choose(next) {
    buttons[at]?.setAttribute("aria-pressed", "false");
    at = next;
    buttons[at].setAttribute("aria-pressed", "true");
    const [said, ...code] = clean(looks[at].title ?? looks[at].name).split(" · ");
    name.replaceChildren(said, ...code.flatMap(one => [" · ", termOf(one)]));
    frame.setAttribute("aria-valuemax", looks[at].shares.length - 1);
    paintStage();
    if (place) lookAt(...place);
    else tellLook();
    looked?.({...looks[at], url});
  }

  function tellLook() {
    const {name: own, most, place: most_at, columns, gate} = looks[at];
    const where =
      isUneven(looks[at])
        ? [` looks most at ${placeWords(most_at, columns)}: `, make("b", {}, percentOf(most))]
        : [most > 0 ? " looks everywhere alike" : " looks nowhere"];
    told.tell(tokenOf(own, NAMED), ...where, ...(gate === undefined ? [] : [", gate ", make("b", {}, gate.toFixed(2))]));
  }

  /** `left` and `above` are fractions of the image; each map has a grid of its own. */
  function lookAt(left, above) {
    place = [left, above];
    const cellOf = ({rows, columns}) => Math.floor(above * rows) * columns + Math.floor(left * columns);
    const look = looks[at],
      cell = cellOf(look),
      {rows, columns} = look;
    for (const [key, value] of [
      ["left", (cell % columns) / columns],
      ["top", Math.floor(cell / columns) / rows],
      ["width", 1 / columns],
      ["height", 1 / rows],
    ])
      patch.style.setProperty(key, `${100 * value}%`);
    patch.hidden = false;
    const words = `${placeWords(cell, columns)}: ${percentOf(look.shares[cell])}`;
    told.tell(tokenOf(look.name, NAMED), ", ", words);
    tellPlace(frame, cell, words);
    looks.forEach((other, number) => {
      notes[number].textContent = percentOf(other.shares[cellOf(other)]);
    });
  }

  /** How the weight of a place came about. `first`: nobody asked for it yet. */
  function openAt(cell, first = false) {
    if (!first) keep({cell: [at, cell]});
    open?.({...looks[at].table, column: cell, first});
  }

  frame.addEventListener("click", () => {
    const {rows, columns} = looks[at];
    if (place) openAt(Math.floor(place[1] * rows) * columns + Math.floor(place[0] * columns));
  });
  frame.addEventListener("keydown", event => {
    if (event.key === "Enter" && place) frame.click();
  });

  function lookAway() {
    if (!place) return;
    place = null;
    patch.hidden = true;
    looks.forEach((look, number) => {
      notes[number].textContent = noteOf(look);
    });
    tellLook();
  }

  /** As `lookAt` and `lookAway`, by the person's own hand or keys. */
  function lookHere(left, above) {
    lookAt(left, above);
    pointed?.({left, above});
  }
  function leave() {
    lookAway();
    pointed?.(null);
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
      const {rows, columns} = looks[at],
        [x, y] = place ?? [0.5, 0.5],
        inside = part => Math.min(0.999, Math.max(0, part));
      lookHere(inside(x + across / columns), inside(y + Math.max(-1, Math.min(1, down)) / rows));
    },
    leave,
  );
  slider.addEventListener("input", () => {
    keep({strength: slider.value / 100});
    paint();
  });
  const stop = rove(
    buttons,
    (number, down, across) => Math.max(0, Math.min(looks.length - 1, number + (down || across))),
    number => {
      choose(number);
      keep({look: number});
    },
  );
  buttons.forEach((button, number) => {
    button.addEventListener("click", () => button.focus());
    button.addEventListener("pointerenter", event => {
      if (event.pointerType === "mouse" && !timer) choose(number);
    });
  });
  loadImage(url).then(found => {
    image = found;
    paint();
    if (at < 0) frame.replaceChildren(found.picture);
  });
  if (at >= 0) {
    stop(at);
    choose(at);
    const [asked, cell] = Array.isArray(state.cell) ? state.cell : [];
    if (telling || looks[asked]) openAt(asked === at && looks[at].shares[cell] !== undefined ? cell : looks[at].place, true);
  }
  const unwatch = onTheme(paint);
  return {
    /** Another view is pointed at, where this place is. */
    point(other) {
      if (at < 0) return;
      if (other && "left" in other) lookAt(other.left, other.above);
      else lookAway();
    },
    close() {
      clearInterval(timer);
      unwatch();
    },
  };
}

export function placeWords(place, columns) {
  return `row ${Math.floor(place / columns) + 1}, column ${(place % columns) + 1}`;
}

function noteOf({most, alone}) {
  if (alone) return "one place";
  return most > 0 ? `≤ ${percentOf(most)}` : "no weight";
}

/** A bar as long as the gate is open. */
function gateOf(gate) {
  if (gate === undefined) return [];
  const bar = make("span", {class: "gate", title: `gate ${gate.toFixed(2)}`}),
    open = make("span", {});
  open.style.setProperty("width", `${100 * gate}%`);
  bar.append(open);
  return [bar];
}
