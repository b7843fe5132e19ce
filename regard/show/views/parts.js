// What all views share: elements, text that is never markup, tables of numbers, colours and keyboard focus.

import {TERMS, spokenTitle} from "./said.js";

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Zl}\p{Zp}]/gu,
  JOINERS = /^[\u200c\u200d]$/;
const LONGEST = 24; // characters of a label
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const STEPS = [1, 1.5, 2, 3, 4, 5, 6, 8, 10]; // tops of scales, times a power of ten
const OUTLIERS = 0.02,
  FAR = 2; // one weight in fifty may be above the scale, if it is more than twice as large
const ARROWS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};

/** A new element. Strings among its children are text, never markup. */
export function make(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false)
      made.setAttribute(name, value === true ? "" : value);
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

/** The text with characters that cannot be seen (controls, bidi marks, lone surrogates) written as escapes. */
export function clean(text) {
  const alone = [...text].length === 1;
  return text
    .replace(/\n/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(/\p{Zs}/gu, " ")
    .replace(UNSEEN, character => {
      if (JOINERS.test(character) && !alone) return character;
      const code = character.codePointAt(0),
        digits = code.toString(16);
      return code < 256
        ? `\\x${digits.padStart(2, "0")}`
        : code < 65536
          ? `\\u${digits.padStart(4, "0")}`
          : `\\U${digits.padStart(8, "0")}`;
    });
}

/** A token as a label: spaces that could be missed as ␣, a lone accent on a dotted circle, long ones cut. */
export function label(token, longest = LONGEST) {
  let shown = clean(token).replace(/^ +| +$| {2,}/g, spaces => "␣".repeat(spaces.length)) || "∅";
  if (/^\p{M}/u.test(shown)) shown = `◌${shown}`;
  const characters = [...shown];
  return characters.length > longest ? `${characters.slice(0, longest - 1).join("")}…` : shown;
}

/** A token in its own direction. */
export function tokenOf(text, longest) {
  return make("bdi", {class: "token", title: TERMS[text]}, label(text, longest));
}

/** A term, whose meaning is told where it is pointed at or reached by the keyboard. */
export function termOf(word, text = word) {
  const told = Object.hasOwn(TERMS, word) ? TERMS[word] : null;
  return told
    ? make("span", {class: "term", tabindex: 0, role: "note", "aria-label": `${text}: ${told}`, "data-told": told}, text)
    : text;
}

/** Empties the element and gives it the classes that the style sheets of a view name. */
export function enter(element, kind) {
  for (const name of [...element.classList]) if (name.startsWith("regard-")) element.classList.remove(name);
  element.classList.add("regard", `regard-${kind}`);
  element.replaceChildren();
}

/** The heading of a view, and what stands below it. */
export function headingOf(data, host) {
  const lines = [data.caption, data.note].flatMap(text => (text ?? "").split("\n")).filter(Boolean);
  const {title: shown, code} = spokenTitle(clean(data.title ?? ""), data.said);
  const title = shown ? [make(`h${host.level ?? 2}`, {dir: "auto"}, shown, code ? make("span", {class: "code"}, ` · ${code}`) : "")] : [];
  return [...title, ...lines.map(line => make("p", {class: "note", dir: "auto"}, clean(line)))];
}

/** A text as children of an element; what is dark on a white page is called bright on a dark one, where colours are
 * turned. */
export function inShades(text) {
  if (typeof text !== "string") return [text];
  return text.split(/\b([Dd]ark(?:er|est)?)\b/).map((part, at) => {
    if (at % 2 === 0) return part;
    const bright = part.replace("dark", "bright").replace("Dark", "Bright");
    return make("span", {}, make("span", {class: "on-light"}, part), make("span", {class: "on-dark"}, bright));
  });
}

/** A line that tells what is pointed at, and at rest what there is to see; screen readers hear it. */
export function toldLine(hint) {
  const line = make("p", {class: "told", "aria-live": "polite"}, ...inShades(hint));
  return {
    line,
    /** The line gets no lower while something is pointed at, so that what is below stays under the pointer. */
    tell: (...parts) => {
      const {height} = line.getBoundingClientRect();
      if (height) line.style.minHeight = `${height}px`;
      line.replaceChildren(...parts);
    },
    rest: (next = hint) => {
      line.style.minHeight = "";
      line.replaceChildren(...inShades(next));
    },
  };
}

/** Nested lists, or a packed table (regard/show/plain.py), as {shape, values}. */
export function readTable(given) {
  if (Array.isArray(given)) {
    const shape = [];
    for (let one = given; Array.isArray(one); one = one[0]) shape.push(one.length);
    return {shape, values: Float32Array.from(given.flat(Infinity), one => one ?? NaN)};
  }
  const count = given.shape.reduce((product, size) => product * size, 1),
    values = new Float32Array(count);
  if (given.runs) {
    let at = 0;
    given.runs.forEach((length, run) => values.fill(run % 2, at, (at += length)));
    return {shape: given.shape, values};
  }
  const digits = given.code.length / count,
    step = (given.top - given.low) / (64 ** digits - 1),
    known = new Uint8Array(128);
  [...ALPHABET].forEach((character, at) => {
    known[character.charCodeAt(0)] = at;
  });
  for (let at = 0; at < count; at++) {
    let number = 0;
    for (let place = at * digits; place < (at + 1) * digits; place++)
      number = 64 * number + known[given.code.charCodeAt(place)];
    values[at] = given.low + number * step;
  }
  return {shape: given.shape, values};
}

/** 1 where a mask is false; null where nothing is hidden. */
export function readHidden(mask) {
  const hidden = mask ? readTable(mask).values.map(seen => 1 - seen) : null;
  return hidden?.some(Boolean) ? hidden : null;
}

export function largest(values) {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}

/** The weight of the darkest colour: the scale if it is a number, else `most` rounded up (0.13 -> 0.15). */
export function topOf(most, scale) {
  if (typeof scale === "number") return scale;
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return Number((STEPS.find(step => most <= step * power * (1 + 1e-5)) * power).toPrecision(6));
}

/** The same for words of a text, of which a few may receive far more than all others. */
export function usualTop(weights, scale) {
  const sorted = Float32Array.from(weights).sort(),
    most = sorted.at(-1),
    place = (1 - OUTLIERS) * (sorted.length - 1);
  const below = sorted[Math.floor(place)],
    usual = below + (sorted[Math.ceil(place)] - below) * (place % 1);
  return topOf(most > FAR * usual && usual > 0 ? usual : most, scale);
}

/** The top as text; larger weights have the same colour. */
export function topWords(top, most) {
  return `${most > top * (1 + 1e-5) ? "≥ " : ""}${Number(top.toPrecision(3))}`;
}

/** A weight with as many decimals as its scale needs: 2 up to 1, 3 up to 0.1, ... */
export function numberOf(value, top = 1) {
  return value.toFixed(Math.max(0, 2 - Math.ceil(Math.log10(top) - 1e-9)));
}

export function percentOf(share) {
  return `${(100 * share).toFixed(share < 0.00995 ? 2 : 1)} %`;
}

/** The places of the largest weights, the largest first. */
export function strongest(weights, count = 5) {
  const found = [];
  for (let at = 0; at < weights.length; at++) {
    if (!(weights[at] > 0) || (found.length === count && weights[at] <= weights[found.at(-1)])) continue;
    let place = found.findIndex(other => weights[other] < weights[at]);
    found.splice(place < 0 ? found.length : place, 0, at);
    if (found.length > count) found.pop();
  }
  return found;
}

/** 256 colours of the ramp that a style sheet names, of three bytes each. A view that was removed while its image was
 * on its way has no style, and is not seen. */
export function readRamp(element, name = "--ramp") {
  const named = getComputedStyle(element).getPropertyValue(name),
    ramp = new Uint8Array(256 * 3);
  if (!named) return ramp;
  const stops = named.split(",").map(readColour);
  for (let level = 0; level < 256; level++) {
    const place = (level / 255) * (stops.length - 1),
      at = Math.min(Math.floor(place), stops.length - 2);
    for (let channel = 0; channel < 3; channel++)
      ramp[3 * level + channel] = Math.round(
        stops[at][channel] + (stops[at + 1][channel] - stops[at][channel]) * (place - at),
      );
  }
  return ramp;
}

export function readColour(text) {
  const number = parseInt(text.trim().slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

export function colourOf(element, name) {
  return getComputedStyle(element).getPropertyValue(name).trim();
}

/** The colour of a level in [0, 1], and black or white text, whichever is legible on it. */
export function shadeOf(ramp, level) {
  const at = 3 * Math.round(255 * Math.min(1, Math.max(0, level))),
    parts = [ramp[at], ramp[at + 1], ramp[at + 2]];
  const light = parts.map(part => ((part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  const bright = 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
  return {fill: `rgb(${parts.join(",")})`, ink: bright > 0.179 ? "#000000" : "#ffffff"};
}

/** A word on the shade of its level; one that may not be looked at has none. */
export function shadeWord(word, ramp, level, hidden = false) {
  word.classList.toggle("hidden-place", hidden);
  if (hidden || !(level >= 0.01)) {
    word.style.removeProperty("background-color");
    word.style.removeProperty("color");
    return;
  }
  const {fill, ink} = shadeOf(ramp, level);
  word.style.setProperty("background-color", fill);
  word.style.setProperty("color", ink);
}

/** One pixel for each cell of a table, which the style sheet enlarges. */
export function paintCells(canvas, rows, columns, levelAt, ramp, hiddenAt = null, grey = [0, 0, 0]) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d"),
    image = context.createImageData(columns, rows),
    {data} = image;
  for (let at = 0; at < rows * columns; at++) {
    const from = 3 * Math.round(255 * Math.min(1, Math.max(0, levelAt(at)))),
      hidden = hiddenAt?.(at);
    for (let channel = 0; channel < 3; channel++)
      data[4 * at + channel] = hidden ? grey[channel] : ramp[from + channel];
    data[4 * at + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

/** The colour scale in words and colours: 0 to `top`. */
export function scaleOf(top, words, ...more) {
  return make(
    "p",
    {class: "key"},
    "0",
    make("span", {class: "ramp"}),
    make("span", {class: "top"}, top),
    make("span", {}, termOf(words)),
    ...more,
  );
}

let groups = 0;

/** Radio buttons that look like one bar: [[value, text], ..]. */
export function choicesOf(name, options, chosen, choose) {
  const group = make("div", {class: "choices", role: "radiogroup", "aria-label": name}),
    own = `regard-${++groups}`;
  for (const [value, text] of options) {
    const input = make("input", {type: "radio", name: own, value});
    input.checked = value === chosen;
    input.addEventListener("change", () => choose(value));
    group.append(make("label", {}, input, make("span", {}, text)));
  }
  return group;
}

/** A button that stays pressed. */
export function toggleOf(text, pressed, press) {
  const button = make("button", {type: "button", class: "toggle", "aria-pressed": String(pressed)}, text);
  button.addEventListener("click", () => {
    const next = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(next));
    press(next);
  });
  return button;
}

/** One tab stop for many items: arrows move the focus by `move(at, down, across)`, which gives the next item. */
export function rove(items, move, reach) {
  const stop = at => items.forEach((item, other) => item.setAttribute("tabindex", other === at ? 0 : -1));
  items.forEach((item, at) => {
    item.addEventListener("keydown", event => {
      const [down, across] = ARROWS[event.key] ?? [0, 0];
      const next =
        event.key === "Home"
          ? 0
          : event.key === "End"
            ? items.length - 1
            : down || across
              ? move(at, down, across)
              : at;
      if (next === at || !items[next]) return;
      event.preventDefault();
      items[next].focus();
    });
    item.addEventListener("focus", () => {
      stop(at);
      reach(at);
    });
  });
  stop(0);
  return stop;
}

/** `element` becomes one control that arrows move: step(down, across), and Escape leaves. */
export function steer(element, step, leave) {
  element.addEventListener("keydown", event => {
    const arrow = ARROWS[event.key] ?? {Home: [-Infinity, 0], End: [Infinity, 0]}[event.key];
    if (event.target !== element || (!arrow && event.key !== "Escape")) return;
    if (arrow) event.preventDefault();
    if (arrow) step(...arrow);
    else leave();
  });
}

/** Attributes of an element whose `count` places arrow keys go through; `rest` is told while none is chosen. */
export function sliderOf(name, count, rest) {
  return {
    tabindex: 0,
    role: "slider",
    "aria-label": name,
    "aria-valuemin": 0,
    "aria-valuemax": count - 1,
    "aria-valuenow": 0,
    "aria-valuetext": rest,
  };
}

/** Tells a screen reader which place of a slider is chosen (null: none). */
export function tellPlace(slider, at, text) {
  slider.setAttribute("aria-valuenow", at ?? 0);
  slider.setAttribute("aria-valuetext", text);
}

/** How much larger an element is shown than its own pixels are. */
function enlarged(element) {
  return element.getBoundingClientRect().width / element.offsetWidth || 1;
}

/** Where in an element the pointer is, in the element's own pixels. */
export function pointIn(element, event) {
  const {left, top} = element.getBoundingClientRect(),
    scale = enlarged(element);
  return [(event.clientX - left) / scale, (event.clientY - top) / scale];
}

/** The pixels of a window below the top of an element, in the element's own. */
export function roomBelow(element) {
  return (innerHeight - Math.max(0, element.getBoundingClientRect().top)) / enlarged(element);
}

export function clamp(value, count) {
  return Math.max(0, Math.min(count - 1, value));
}

/** Calls `redraw` when the colours change between light and dark, as for paper; returns a function that ends this. */
export function onTheme(redraw) {
  const wanted = ["(prefers-color-scheme: dark)", "print"].map(one => matchMedia(one)),
    seen = new MutationObserver(redraw);
  for (const one of wanted) one.addEventListener("change", redraw);
  for (const part of [document.documentElement, document.body])
    seen.observe(part, {attributes: true, attributeFilter: ["data-theme"]});
  return () => {
    for (const one of wanted) one.removeEventListener("change", redraw);
    seen.disconnect();
  };
}

/** Draws in words, and in pieces of words where they are asked for: `draw(root, data, context)` returns {close()}, and
    {point(place)} where another view can point in this one, {mark(place)} where it shows which weight is opened (null: none); context is {state, keep, tools, open, pointed, looked, languages}: what
    is chosen, whom to tell of changes, the controls to show, what opens a weight, if it can be opened, whom to tell
    of the place that is pointed at (null: none) and of the look over an image that is shown, and `languages(site)` of what is read and written, if they are known. */
export function withPieces(element, data, host, draw) {
  let shown = null,
    awaited = null;
  const state = {...host.state},
    root = make("div", {class: "view"});
  const keep = changes => {
    Object.assign(state, changes);
    host.changed?.({...state});
  };

  const open = host.open && (place => host.open({pieces: Boolean(state.pieces), ...place}));

  async function drawNext(pieces) {
    const own = (awaited = {}); // what is asked for later takes its place
    const next = !pieces ? data : data.pieces === true ? await host.part({pieces: true}) : data.pieces;
    if (awaited !== own) return;
    shown?.close();
    shown = draw(root, next, {state, keep, tools, open, pointed: host.pointed, looked: host.looked, languages: host.languages});
  }

  const tools =
    data.pieces && (data.pieces !== true || host.part)
      ? [
          toggleOf("Pieces of words", Boolean(state.pieces), pieces => {
            keep({pieces, row: null});
            drawNext(pieces);
          }),
        ]
      : [];
  enter(element, data.kind);
  element.append(...headingOf(data, host), root);
  drawNext(Boolean(data.pieces && state.pieces));
  return {
    point: place => shown?.point?.(place),
    mark: place => shown?.mark?.(place),
    close() {
      awaited = null;
      shown?.close();
    },
  };
}
