// Bits, weights of read and write heads, and the memory, over the same steps.

import {
  clamp,
  clean,
  colourOf,
  enter,
  headingOf,
  largest,
  make,
  onTheme,
  paintCells,
  readColour,
  readRamp,
  readTable,
  sliderOf,
  steer,
  tellPlace,
  toggleOf,
  toldLine,
  topOf,
} from "./parts.js";

const HINT = "Point at a step, or use ← and →, to see the memory after it.";
const PAUSE = 350; // milliseconds of a step while they play
const TALLEST = 230; // pixels of a panel

export function show(element, data, host = {}) {
  const state = {...host.state},
    told = toldLine(HINT),
    root = make("div", {class: "view"});
  const panels = Object.entries(data.panels).map(([name, table]) => readPanel(name, table, data));
  const steps = panels[0].steps,
    memory = data.memory ? readTable(data.memory) : null,
    track = make("div", {class: "track"});
  const canvases = panels.map(() => make("canvas", {"aria-hidden": "true"})),
    mark = make("div", {class: "step", hidden: true});
  const scroll = make("div", {class: "scroll", ...sliderOf("step", steps, "no step is chosen")}, track);
  const after = make("canvas", {"aria-hidden": "true"}),
    afterName = make("p", {class: "sub"});
  const cell = Math.max(3, Math.min(18, Math.floor(Math.min(880, (element.clientWidth || 720) - 30) / steps)));
  let step = null,
    timer = null,
    kept = false;

  panels.forEach((panel, at) =>
    track.append(make("p", {class: "sub", dir: "auto"}, clean(panel.name)), canvases[at]),
  );
  track.append(ticksOf(steps, cell), mark);
  track.style.setProperty("width", `${cell * steps}px`);
  const play = toggleOf("Play", false, playing => {
    clearInterval(timer);
    timer = playing ? setInterval(() => lookAt(((step ?? -1) + 1) % steps), PAUSE) : null;
  });
  const beside = memory ? [make("section", {class: "memory"}, afterName, after)] : [];
  const tops = [...new Set(panels.filter(({signed}) => !signed).map(({top}) => Number(top.toPrecision(3))))].sort();
  const key = make(
    "p",
    {class: "key"},
    "0",
    make("span", {class: "ramp"}),
    tops.join(" or ") || "1",
    ...(panels.some(({signed}) => signed) || memory
      ? [make("span", {class: "ramp both"}), "below 0, above 0"]
      : []),
    ...(panels.some(({hidden}) => hidden) ? [make("span", {class: "sign hidden-place"}), "not asked for"] : []),
  );
  enter(element, "tape");
  element.append(...headingOf(data, host), root);
  root.append(
    make("div", {class: "tools"}, play),
    told.line,
    make("div", {class: "beside"}, make("div", {class: "panels"}, scroll, key), ...beside),
  );

  function repaint() {
    const grey = readColour(colourOf(element, "--hidden")),
      ramps = [readRamp(element), readRamp(element, "--diverging")];
    panels.forEach(({rows, values, signed, top, hidden}, at) => {
      const levelAt = signed ? place => (values[place] / top + 1) / 2 : place => values[place] / top;
      paintCells(
        canvases[at],
        rows,
        steps,
        levelAt,
        ramps[Number(signed)],
        hidden && (place => hidden[place % steps]),
        grey,
      );
      canvases[at].style.setProperty("height", `${Math.min(Math.max(cell, 5), TALLEST / rows) * rows}px`);
    });
    if (memory) paintMemory(ramps[1]);
  }

  function paintMemory(ramp) {
    const [, places, width] = memory.shape,
      start = (step ?? steps - 1) * places * width;
    const most = (memory.most ??=
      Math.max(
        ...memory.values.reduce(([low, high], value) => [Math.max(low, -value), Math.max(high, value)], [0, 0]),
      ) || 1);
    paintCells(after, places, width, place => (memory.values[start + place] / most + 1) / 2, ramp);
    afterName.textContent = `Memory after step ${step ?? steps - 1}`;
  }

  function lookAt(next) {
    step = next;
    mark.hidden = next === null;
    if (memory) paintMemory(readRamp(element, "--diverging"));
    if (next === null) return told.rest();
    mark.style.setProperty("left", `${next * cell}px`);
    mark.style.setProperty("width", `${cell}px`);
    const words = panels.flatMap(panel => [" · ", clean(panel.name), ": ", ...panelWords(panel, next)]);
    told.tell(make("b", {}, `Step ${next}`), ...words);
    tellPlace(scroll, next, `step ${next}`);
  }

  track.addEventListener("pointermove", event => {
    if (!kept) lookAt(clamp(Math.floor((event.clientX - track.getBoundingClientRect().left) / cell), steps));
  });
  track.addEventListener("pointerleave", () => {
    if (!kept && !timer) lookAt(null);
  });
  const keep = next => {
    kept = next !== null;
    host.changed?.(Object.assign(state, {row: next}));
    lookAt(next);
  };
  track.addEventListener("click", () => keep(kept ? null : step));
  steer(
    scroll,
    (down, across) => keep(step === null ? 0 : clamp(step + (across || down), steps)),
    () => keep(null),
  );
  repaint();
  if (Number.isInteger(state.row) && state.row >= 0 && state.row < steps) keep(state.row);
  const stop = onTheme(repaint);
  return {
    close() {
      clearInterval(timer);
      stop();
    },
  };
}

function readPanel(name, table, {scale, shown, panels}) {
  const {
      shape: [rows, steps],
      values,
    } = readTable(table),
    far = one => largest(one.map(Math.abs));
  const signed = values.some(value => value < 0),
    seen = shown?.[name] ? readTable(shown[name]).values : null;
  const own = far(values),
    all = () => Math.max(...Object.values(panels).map(one => far(readTable(one).values)));
  const top =
    scale === undefined ? (signed ? Math.max(1, topOf(own)) : 1) : topOf(scale === "each" ? own : all(), scale);
  return {
    name,
    rows,
    steps,
    values,
    signed,
    top,
    hidden: seen?.some(one => !one) ? seen.map(one => 1 - one) : null,
  };
}

/** Bits as they are, weights by their largest place. */
function panelWords({rows, steps, values, hidden}, step) {
  if (hidden?.[step]) return ["not asked for"];
  const column = Array.from({length: rows}, (_, row) => values[row * steps + step]);
  if (rows <= 12 && column.every(value => Math.abs(value) < 0.005 || Math.abs(value - 1) < 0.005))
    return [make("b", {}, column.map(Math.round).join(""))];
  const most = largest(column);
  return [`place ${column.indexOf(most)} `, make("b", {}, most.toFixed(2))];
}

function ticksOf(steps, cell) {
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find(count => cell * count >= 34) ?? 1000,
    ticks = make("div", {class: "ticks"});
  for (let at = 0; at < steps; at += every) {
    const tick = make("span", {}, String(at));
    tick.style.setProperty("left", `${(at + 0.5) * cell}px`);
    ticks.append(tick);
  }
  return ticks;
}
