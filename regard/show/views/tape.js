// Bits, weights of read and write heads, and the memory: time runs down, what happens in a step stands in one line.

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
  pointIn,
  readColour,
  readRamp,
  readTable,
  roomBelow,
  sliderOf,
  steer,
  tellPlace,
  toggleOf,
  toldLine,
  topOf,
} from "./parts.js";

const HINT = "Time runs down: what came in, what went out, and which place of the memory was written and read. Point at a step, or use ↑ and ↓, to see the memory after it.";
const BARE = "Time runs down: what came in and what went out. Point at a step, or use ↑ and ↓, to read it.";
const PAUSE = 350; // milliseconds of a step while they play
const MANY = 16, // rows of a panel from which on only those are shown that were used
  USED = 0.02; // the largest weight of a place that counts as used
const LOW = 3, // pixels of a step: at least, at most
  HIGH = 22,
  NARROW = 3, // pixels of a place: at least, at most
  WIDE = 16,
  GAP = 18; // pixels between panels
const NUMBERS = 34, // pixels for the numbers of steps
  NAMES = 22, // pixels for the names of panels
  TIGHT = 44, // pixels of a panel below which its name is written small
  ABOVE = 0.3; // of the window, left free where a tape stands in a text

export function show(element, data, host = {}) {
  const state = {...host.state},
    told = toldLine(data.memory ? HINT : BARE),
    root = make("div", {class: "view"});
  const memory = data.memory ? readTable(data.memory) : null,
    all = Object.entries(data.panels).map(([name, table]) => readPanel(name, table, data)),
    places = usedPlaces(all, memory);
  const panels = all.map(panel => onlyPlaces(panel, places)),
    steps = panels[0].steps,
    columns = panels.reduce((sum, {rows}) => sum + rows, 0);
  const heads = panels.filter(({places: own}) => own && memory),
    track = make("div", {class: "track"}),
    mark = make("div", {class: "step", hidden: true});
  const scroll = make(
    "div",
    {class: "scroll", "aria-orientation": "vertical", ...sliderOf("step", steps, "no step is chosen")},
    track,
  );
  const canvases = panels.map(() => make("canvas", {"aria-hidden": "true"})),
    after = make("canvas", {"aria-hidden": "true"}),
    looking = make("canvas", {"aria-hidden": "true"}),
    afterName = make("p", {class: "sub"});
  enter(element, "tape");
  element.append(...headingOf(data, host), root);
  let wide = WIDE,
    high = HIGH,
    tall = HIGH, // pixels of a place of the memory
    across = 0, // pixels that it was laid for
    step = null,
    timer = null,
    kept = false;

  const play = toggleOf("Play", false, playing => {
    clearInterval(timer);
    timer = playing ? setInterval(() => lookHere(((step ?? -1) + 1) % steps), PAUSE) : null;
  });
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
    ...(places ? [make("span", {class: "pair"}, `${places.length} of ${all.find(isOfPlaces(memory)).rows} places were used`)] : []),
  );
  const legend = heads.length
    ? [
        make(
          "p",
          {class: "small"},
          `Each row is a place. Left of it: ${heads.map(({name}) => headName(name, all)).join(", ")}.`,
        ),
      ]
    : [];
  root.append(
    make("div", {class: "tools"}, play),
    told.line,
    make(
      "div",
      {class: "beside"},
      make("div", {class: "panels"}, scroll, key),
      ...(memory
        ? [make("section", {class: "memory"}, afterName, make("div", {class: "heads-and"}, looking, after), ...legend)]
        : []),
    ),
  );

  function lay() {
    across = element.clientWidth;
    const width = across || 720,
      beside = memory && width > 640 ? 260 : 0,
      free = width - beside - NUMBERS - GAP * panels.length;
    wide = clampTo(Math.floor(free / columns), NARROW, WIDE);
    const room = host.inText ? (1 - ABOVE) * innerHeight : roomBelow(scroll);
    high = clampTo(Math.floor((room - NAMES - 44) / steps), LOW, HIGH);
    if (memory) tall = clampTo(Math.floor((room - NAMES - 70) / (places?.length ?? memory.shape[1])), 4, 20);
    let left = NUMBERS;
    const names = panels.map((panel, at) => {
      const width = panel.rows * wide,
        name = make("p", {class: "name", dir: "auto", title: clean(panel.name)}, headName(panel.name, all));
      name.classList.toggle("tight", width < TIGHT);
      for (const part of [name, canvases[at]]) part.style.setProperty("left", `${left}px`);
      name.style.setProperty("width", `${width + GAP - 4}px`);
      canvases[at].style.setProperty("top", `${NAMES}px`);
      canvases[at].style.setProperty("width", `${width}px`);
      canvases[at].style.setProperty("height", `${high * steps}px`);
      left += width + GAP;
      return name;
    });
    track.style.setProperty("width", `${left}px`);
    track.style.setProperty("height", `${NAMES + high * steps + 4}px`);
    track.replaceChildren(...names, ...canvases, ...ticksOf(steps, high), mark);
  }

  function repaint() {
    const grey = readColour(colourOf(element, "--hidden")),
      ramps = [readRamp(element), readRamp(element, "--diverging")];
    panels.forEach(({rows, values, signed, top, hidden}, at) => {
      const place = cell => (cell % rows) * steps + Math.floor(cell / rows); // a step is a row of the picture
      const levelAt = signed
        ? cell => (values[place(cell)] / top + 1) / 2
        : cell => values[place(cell)] / top;
      paintCells(
        canvases[at],
        steps,
        rows,
        levelAt,
        ramps[Number(signed)],
        hidden && (cell => hidden[Math.floor(cell / rows)]),
        grey,
      );
    });
    if (memory) paintMemory();
  }

  /** The memory after a step, and how much each head looks at its places then. */
  function paintMemory() {
    const [, count, width] = memory.shape,
      now = step ?? steps - 1,
      shown = places ?? Array.from({length: count}, (_, place) => place),
      start = now * count * width;
    const most = (memory.most ??= memory.values.reduce((far, value) => Math.max(far, Math.abs(value)), 0) || 1);
    const side = clampTo(Math.floor(200 / width), 4, 14);
    paintCells(
      after,
      shown.length,
      width,
      cell => (memory.values[start + shown[Math.floor(cell / width)] * width + (cell % width)] / most + 1) / 2,
      readRamp(element, "--diverging"),
    );
    for (const [canvas, columnsOf] of [
      [after, width],
      [looking, heads.length],
    ]) {
      canvas.style.setProperty("width", `${columnsOf * side}px`);
      canvas.style.setProperty("height", `${tall * shown.length}px`);
    }
    if (heads.length)
      paintCells(
        looking,
        shown.length,
        heads.length,
        cell => heads[cell % heads.length].values[Math.floor(cell / heads.length) * steps + now],
        readRamp(element),
      );
    afterName.textContent = `Memory after step ${now}`;
  }

  function lookAt(next) {
    step = next;
    mark.hidden = next === null;
    if (memory) paintMemory();
    if (next === null) return told.rest();
    mark.style.setProperty("top", `${NAMES + next * high}px`);
    mark.style.setProperty("height", `${high}px`);
    const words = all.flatMap(panel => [" · ", headName(panel.name, all), ": ", ...panelWords(panel, next)]);
    told.tell(make("b", {}, `Step ${next}`), ...words);
    tellPlace(scroll, next, `step ${next}`);
  }

  /** As `lookAt`, by the person's own hand or keys. */
  function lookHere(next) {
    if (next === step) return;
    lookAt(next);
    host.pointed?.(next === null ? null : {step: next});
  }

  track.addEventListener("pointermove", event => {
    const at = Math.floor((pointIn(track, event)[1] - NAMES) / high);
    if (!kept) lookHere(clamp(at, steps));
  });
  track.addEventListener("pointerleave", () => {
    if (!kept && !timer) lookHere(null);
  });
  /** How the weight of a head at one of its places came about. */
  function openAt(panel, column) {
    const place = panel.places ? places[column] : column;
    if (isOfPlaces(memory)(all[panels.indexOf(panel)]))
      host.open?.({table: `panels/${panel.name}`, row: step, column: place, turned: true});
  }
  const keep = next => {
    kept = next !== null;
    host.changed?.(Object.assign(state, {row: next}));
    lookHere(next);
  };
  track.addEventListener("click", event => {
    keep(kept ? null : step);
    const at = canvases.indexOf(event.target);
    if (at >= 0 && step !== null) openAt(panels[at], Math.floor(pointIn(event.target, event)[0] / wide));
  });
  steer(
    scroll,
    (down, across) => keep(step === null ? 0 : clamp(step + (down || across), steps)),
    () => keep(null),
  );
  lay();
  repaint();
  if (Number.isInteger(state.row) && state.row >= 0 && state.row < steps) keep(state.row);
  const stop = onTheme(repaint);
  const sized = new ResizeObserver(() => {
    if (!element.clientWidth || element.clientWidth === across) return;
    lay();
    lookAt(step);
  });
  sized.observe(element);
  return {
    /** Another view is pointed at, where this place is. */
    point(place) {
      const next = place?.step ?? null;
      if (!kept && !timer && next !== step && (next === null || next < steps)) lookAt(next);
    },
    close() {
      clearInterval(timer);
      stop();
      sized.disconnect();
    },
  };
}

function clampTo(value, low, most) {
  return Math.max(low, Math.min(most, value));
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

/** "write 0" as "write head", where there is one of its kind. */
function headName(name, all) {
  const [, kind] = name.match(/^(write|read) 0$/) ?? [];
  const isOne = kind && all.filter(one => one.name.startsWith(`${kind} `)).length === 1;
  return isOne ? `${kind} head` : clean(name);
}

/** Whether the rows of a panel are places of the memory. */
function isOfPlaces(memory) {
  return ({rows, signed}) => memory && rows === memory.shape[1] && !signed;
}

/** The places of the memory that any head looked at; null: all are shown. */
function usedPlaces(panels, memory) {
  const heads = panels.filter(isOfPlaces(memory));
  if (!heads.length || heads[0].rows < MANY) return null;
  const used = ({values, steps}, place) => largest(values.subarray(place * steps, (place + 1) * steps)) >= USED;
  const found = Array.from({length: heads[0].rows}, (_, place) => place).filter(place =>
    heads.some(head => used(head, place)),
  );
  return found.length && found.length < heads[0].rows ? found : null;
}

function onlyPlaces(panel, places) {
  const own = places !== null && panel.rows > places.at(-1) && panel.rows >= MANY && !panel.signed;
  if (!own) return {...panel, places: false};
  const {steps, values} = panel,
    kept = new Float32Array(places.length * steps);
  places.forEach((place, at) => kept.set(values.subarray(place * steps, (place + 1) * steps), at * steps));
  return {...panel, rows: places.length, values: kept, places: true};
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

function ticksOf(steps, high) {
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find(count => high * count >= 18) ?? 1000;
  return Array.from({length: Math.ceil(steps / every)}, (_, number) => {
    const tick = make("span", {class: "tick"}, String(number * every));
    tick.style.setProperty("top", `${NAMES + (number * every + 0.5) * high}px`);
    return tick;
  });
}
