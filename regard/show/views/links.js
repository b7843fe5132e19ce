// One table of weights as lines between two lists of tokens.

import {clamp, colourOf, label, make, pointIn, readRamp, shadeWord, sliderOf, steer, tellPlace, tokenOf} from "./parts.js";
import {queryPlaces} from "./text.js";

const BETWEEN = 200; // pixels between the lists
const FAINT = 0.03; // of the scale: weaker weights get no line
const FEW = 40; // tokens up to which lines are high

/** As `drawCells`. Pointing at a token on the right tells who looks at it. */
export function drawLinks(stage, look, control) {
  const {rows, columns, weights, top} = look,
    first = queryPlaces(columns, rows).places?.[0] ?? 0;
  const long = Math.max(first + rows.length, columns.length); // a written word stands beside its own place
  const high = long <= FEW ? 26 : 20,
    font = long <= FEW ? 15 : 12.5,
    height = long * high;
  const between = Math.min(BETWEEN, Math.max(90, (stage.clientWidth || 720) * 0.35));
  const canvas = make("canvas", {"aria-hidden": "true"});
  const lists = [
    [rows, "from"],
    [columns, "to"],
  ].map(([names, kind]) => {
    const list = make("ol", {class: kind, "aria-hidden": "true"});
    list.append(...names.map(name => make("li", {title: label(name, 200)}, tokenOf(name))));
    return list;
  });
  const links = make("div", {class: "links"}, lists[0], canvas, lists[1]);
  const slider = make(
    "div",
    {class: "scroll", "aria-orientation": "vertical", ...sliderOf("token that looks", rows.length, "no token is chosen")},
    links,
  );
  const [from, to] = lists.map(list => [...list.children]);
  let ramp,
    line,
    shown = [null, null];
  links.style.setProperty("font-size", `${font}px`);
  for (const item of [...from, ...to]) {
    item.style.setProperty("height", `${high}px`);
    item.style.setProperty("line-height", `${high}px`);
  }
  lists[0].style.setProperty("padding-top", `${first * high}px`);
  canvas.style.setProperty("width", `${between}px`);
  canvas.style.setProperty("height", `${height}px`);
  stage.replaceChildren(slider);

  function draw(row, column) {
    const fine = Math.min(2, window.devicePixelRatio || 1),
      pen = canvas.getContext("2d");
    canvas.width = fine * between;
    canvas.height = fine * height;
    pen.scale(fine, fine);
    pen.strokeStyle = line;
    const [begin, end] = row === null ? [0, rows.length - 1] : [row, row];
    for (let at = begin; at <= end; at++)
      for (let to = column ?? 0; to < (column === null ? columns.length : column + 1); to++) {
        const level = weights[at * columns.length + to] / top;
        if (level < FAINT) continue;
        pen.globalAlpha = Math.min(1, level) * (row === null && column === null ? 0.8 : 1);
        pen.lineWidth = 1 + 1.8 * Math.min(1, level);
        const y = (first + at + 0.5) * high,
          z = (to + 0.5) * high;
        pen.beginPath();
        pen.moveTo(0, y);
        pen.bezierCurveTo(between / 3, y, (between * 2) / 3, z, between, z);
        pen.stroke();
      }
  }

  /** A row, or a column alone: the rows that look at it. */
  function point(row, column) {
    shown = [row, row === null ? column : null];
    draw(...shown);
    to.forEach((item, at) => {
      shadeWord(item, ramp, row === null ? 0 : weights[row * columns.length + at] / top);
      item.classList.toggle("on", row === null && at === column);
    });
    from.forEach((item, at) => {
      shadeWord(item, ramp, row === null && column !== null ? weights[at * columns.length + column] / top : 0);
      item.classList.toggle("on", at === row);
    });
    tellPlace(slider, row, row === null ? "no token is chosen" : `${row + 1} of ${rows.length}: ${label(rows[row])}`);
  }

  function repaint() {
    ramp = readRamp(stage);
    line = colourOf(stage, "--line");
    point(...shown);
  }

  lists.forEach((list, which) => {
    const placeOf = event => {
      const place = clamp(Math.floor(pointIn(list.firstChild, event)[1] / high), list.children.length);
      return which ? [null, place] : [place, null];
    };
    list.addEventListener("pointermove", event => control.hover(...placeOf(event)));
    list.addEventListener("click", event => control.pin(...placeOf(event)));
  });
  links.addEventListener("pointerleave", () => control.hover(null, null));
  steer(slider, down => control.step(down, 0), control.leave);
  repaint();
  return {point, repaint, focus: () => slider.focus()};
}
