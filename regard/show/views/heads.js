// Choosing a panel of a grid of attention heads shows that head large, as a map and as lines between tokens; a long
// text instead of lines as words shaded by the attention they receive.

const HINT = "Point at a row, or press ↓ in the map, to see what it looks at.";
const WIDE = 1000;  // pixels: from here on the style sheet puts the chosen head beside the panels, else below
const LONG = 60;  // columns: from here on a text is shaded instead of drawn as lines
const FAINT = .02, STRONG = .1;  // of the scale: weaker weights get no line, stronger ones a bold token

/** `element` holds a <main> with a button for each head; `sites` is [{rows, columns, tops, heads}], where each head
    is a flat list of weights in thousandths of its top, -1 for places that may not be looked at. */
export function showHeads(element, sites) {
  const buttons = [...element.querySelectorAll("button")];
  const chosen = makeChosen();
  const detail = showHead(chosen);

  function choose(button) {
    for (const other of buttons) other.setAttribute("aria-pressed", other === button);
    const {rows, columns, tops, heads} = sites[button.dataset.site], at = button.dataset.head;
    detail.show(button.title, {rows, columns, top: tops[at], levels: heads[at]}, button.firstElementChild.src);
  }

  for (const button of buttons) {
    button.addEventListener("click", () => {
      choose(button);
      if (innerWidth < WIDE) chosen.scrollIntoView();
    });
    button.addEventListener("keydown", event => {
      const [down, across] = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key]
        ?? [0, 0];
      const site = Number(button.dataset.site) + down, head = Number(button.dataset.head) + across;
      const next = element.querySelector(`button[data-site="${site}"][data-head="${head}"]`);
      if (!next || next === button) return;
      event.preventDefault();
      next.focus();
    });
  }
  element.querySelector("main").append(chosen);
  choose(buttons[0]);
}

function makeChosen() {
  const chosen = make("div", "chosen"), question = make("p", "question");
  question.setAttribute("aria-live", "polite");
  chosen.append(make("h2", "name"), question);
  for (const name of ["map", "lines"]) {
    const scroll = make("div", "scroll");
    scroll.append(draw("svg", {class: name, role: "img"}));
    chosen.append(scroll);
  }
  question.after(make("p", "text"));
  chosen.querySelector(".map").setAttribute("tabindex", 0);
  return chosen;
}

/** The large view of one head inside `chosen`; returns {show(title, head, image)}. */
function showHead(chosen) {
  const [name, question, text, map, lines] = ["name", "question", "text", "map", "lines"].map(part =>
    chosen.querySelector(`.${part}`));
  const pen = document.createElement("canvas").getContext("2d");
  let head, row, veils, cell, left, above;  // left, above: where the cells of the large map begin

  const level = (down, across) => Math.max(0, head.levels[down * head.columns.length + across]) / 1000;
  const room = tokens => Math.max(...tokens.map(token => pen.measureText(token).width)) + 12;

  function show(title, next, image) {
    head = next;
    name.textContent = title;
    for (const picture of [map, lines]) picture.setAttribute("aria-label", title);
    cell = Math.max(head.rows.length, head.columns.length) > 40 ? 11 : 18;
    const font = map.style.fontSize = lines.style.fontSize = cell > 12 ? "12px" : "9.5px";
    pen.font = `700 ${font} ${getComputedStyle(chosen).fontFamily}`;
    left = room(head.rows), above = room(head.columns);
    const long = head.columns.length > LONG;
    drawMap(image);
    lines.parentElement.hidden = long;
    text.replaceChildren(...long ? wordsOf(head.columns) : []);
    if (!long) drawLines();
    lookAt(null);
  }

  function drawMap(image) {
    const {rows, columns} = head, width = columns.length * cell, height = rows.length * cell;
    map.setAttribute("width", left + width + 12);
    map.setAttribute("height", above + height + 4);
    map.replaceChildren(draw("image", {x: left, y: above, width, height, href: image, preserveAspectRatio: "none",
      style: "image-rendering:pixelated"}));
    columns.forEach((token, at) => map.append(drawToken(token, {class: "column",
      transform: `translate(${left + (at + .5) * cell},${above - 5}) rotate(-90)`})));
    rows.forEach((token, at) => map.append(drawToken(token, {class: "row", x: left - 6, y: above + (at + .5) * cell,
      "text-anchor": "end"})));
    // Two veils cover the rows above and below the one that is pointed at.
    veils = [0, 1].map(() => draw("rect", {x: left, y: above, width, height: 0, fill: "#fff", opacity: .75}));
    map.append(...veils);
  }

  function drawLines() {
    const {rows, columns} = head, right = left + 220, high = cell + 2;
    lines.setAttribute("width", right + room(columns));
    lines.setAttribute("height", Math.max(rows.length, columns.length) * high + 8);
    lines.replaceChildren();
    rows.forEach((token, at) => {
      const group = draw("g", {"data-row": at}), y = (at + .5) * high;
      group.append(draw("rect", {x: 0, y: at * high, width: left, height: high, fill: "#fff"}));
      group.append(drawToken(token, {x: left - 6, y, "text-anchor": "end"}));
      columns.forEach((_, to) => {
        const value = level(at, to);
        if (value >= FAINT) group.append(draw("line", {x1: left, y1: y, x2: right, y2: (to + .5) * high,
          "stroke-opacity": value, "pointer-events": "none"}));
      });
      lines.append(group);
    });
    columns.forEach((token, at) => lines.append(drawToken(token, {class: "column", x: right + 6,
      y: (at + .5) * high})));
  }

  function lookAt(next) {
    row = next;
    const {rows, columns} = head, none = row === null;
    veils[0].setAttribute("height", none ? 0 : row * cell);
    veils[1].setAttribute("height", none ? 0 : (rows.length - row - 1) * cell);
    veils[1].setAttribute("y", none ? above : above + (row + 1) * cell);
    const values = columns.map((_, to) => none ? 0 : level(row, to));
    shadeText(none ? columns.map((_, to) => mean(rows.map((_, at) => level(at, to)))) : values);
    for (const picture of [map, lines])
      picture.querySelectorAll(".column").forEach((text, to) => {
        text.classList.toggle("on", values[to] >= STRONG);
        text.classList.toggle("off", !none && values[to] < FAINT);
      });
    map.querySelectorAll(".row").forEach((text, at) => text.classList.toggle("on", at === row));
    lines.querySelectorAll("g").forEach((group, at) => group.style.opacity = none || at === row ? 1 : .08);
    if (none) return question.replaceChildren(HINT);
    const best = values.map((value, to) => [value, to]).sort((a, b) => b[0] - a[0]).slice(0, 5);
    question.replaceChildren(tokenOf(rows[row]), " looks at ");
    const digits = Math.max(0, 2 - Math.ceil(Math.log10(head.top) - 1e-9));
    best.filter(([value]) => value >= .005).forEach(([value, to], at) =>
      question.append(at ? ", " : "", tokenOf(columns[to]), ` ${(value * head.top).toFixed(digits)}`));
  }

  // The words by where the row looks, or by the mean of all rows; the largest weight is the darkest.
  function shadeText(values) {
    const most = Math.max(...values, 1e-9);
    [...text.children].forEach((word, to) => word.style.setProperty("--level", `${values[to] / most * 70}%`));
  }

  map.addEventListener("pointermove", event => {
    const at = Math.floor((event.clientY - map.getBoundingClientRect().top - above) / cell);
    const next = at >= 0 && at < head.rows.length ? at : null;
    if (next !== row) lookAt(next);
  });
  lines.addEventListener("pointerover", event => {
    const group = event.target.closest("g");
    lookAt(group ? Number(group.dataset.row) : null);
  });
  for (const picture of [map, lines]) picture.addEventListener("pointerleave", () => lookAt(null));
  map.addEventListener("keydown", event => {
    const step = {ArrowUp: -1, ArrowDown: 1}[event.key];
    if (event.key === "Escape") lookAt(null);
    if (!step) return;
    event.preventDefault();
    const last = head.rows.length - 1;
    lookAt(row === null ? (step > 0 ? 0 : last) : Math.min(last, Math.max(0, row + step)));
  });
  return {show};
}

/** Pieces and characters carry their own spaces; words get some between them. */
function wordsOf(tokens) {
  if (tokens.some(token => token.startsWith("␣"))) return tokens.map(token => tokenOf(token.replaceAll("␣", " ")));
  return tokens.flatMap(token => [tokenOf(token), " "]);
}

function mean(values) {
  return values.reduce((sum, one) => sum + one, 0) / values.length;
}

function make(kind, name) {
  const part = document.createElement(kind);
  part.className = name;
  return part;
}

function draw(kind, attributes) {
  const part = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const name in attributes) part.setAttribute(name, attributes[name]);
  return part;
}

// Tokens are only ever set as text, never as markup.
function drawToken(token, attributes) {
  const text = draw("text", {dy: ".35em", "unicode-bidi": "plaintext", ...attributes});
  text.textContent = token;
  return text;
}

function tokenOf(text) {
  const token = document.createElement("bdi");
  token.textContent = text;
  return token;
}
