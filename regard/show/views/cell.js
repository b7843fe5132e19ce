// One weight opened: query and key, their score, the softmax over the row, the values and what is read, in numbers and
// small pictures; with settings that act at once.

import {clean, make, numberOf, onTheme, readRamp, readTable, strongest, tokenOf} from "./parts.js";
import {siteTitle} from "./said.js";
import {signed, stripOf} from "./strips.js";
import {readOf, termsOf, unchanged, weighed} from "./weigh.js";

const FEW = 9; // places in the table: the strongest, and the one that was opened
const PLACE = 18; // characters of the name of one: those of an image are told apart by their ends
const NAMED = 80; // characters of the name of a block
const MEAN = "mean"; // the name of a row of gates that is none of them
const FORMULAS = {
  dot: "score = q · k",
  scaled_dot: "score = q · k / √D",
  general: "score = q · W k",
  additive: "score = v · tanh(W q + U k)",
  cosine: "score = β cos(q, k)",
  location: "score = (W q) at this place; the key is not looked at",
};

/** `data` as the server sends it. `choose(head)`: another head of the same site; `close()`: it is closed. */
export function showCell(element, data, {choose, close}) {
  const look = readLook(data),
    {column, names} = look;
  let settings = unchanged(look),
    now;
  const result = make("p", {class: "result", "aria-live": "polite"}),
    between = make("div", {class: "strips"}),
    table = make("table", {}),
    reading = make("div", {class: "strips"});
  const asks = data.row ? tokenOf(data.row) : make("span", {}, "the model’s query"),
    seen = names[column] ? tokenOf(names[column]) : make("span", {}, `place ${column}`);
  const heads =
    data.heads > 1
      ? [make("select", {"aria-label": "Head"}, ...Array.from({length: data.heads}, (_, head) => make("option", {value: head}, `head ${head}`)))]
      : [];
  for (const list of heads) {
    list.value = String(data.head);
    list.addEventListener("change", () => choose(Number(list.value)));
  }
  const end = make("button", {type: "button", class: "toggle", "aria-label": "Close the opened weight"}, "×");
  end.addEventListener("click", close);
  const reset = make("button", {type: "button", class: "toggle", hidden: true}, "As the model has it");
  reset.addEventListener("click", () => {
    settings = unchanged(look);
    sliders.forEach(one => one.show());
    draw();
  });
  const sliders = slidersOf(look, () => settings, draw);

  element.replaceChildren(
    make("div", {class: "cell-head"}, make("h3", {}, "How ", asks, " came to look at ", seen), end, ...heads),
    make("p", {class: "note"}, siteTitle(data.site, data.said)),
    result,
    make("h4", {}, "1. Query and key give a score"),
    make("p", {class: "note formula"}, FORMULAS[look.score.name] ?? FORMULAS.scaled_dot),
    between,
    make("h4", {}, "2. Scores of the row become weights"),
    make("div", {class: "scroll"}, table),
    make("h4", {}, "3. The values, times their weights, are read"),
    reading,
    make("h4", {class: "sliders-name"}, "Try it"),
    make("div", {class: "sliders"}, ...sliders.map(one => one.element), reset),
  );

  function draw() {
    now = weighed(look, settings);
    const place = now.places.indexOf(column),
      weight = now.weights[place],
      before = look.weights[column];
    const same = Math.abs(weight - before) < 5e-3 && isUnchanged(look, settings);
    result.replaceChildren(
      "Its weight is ",
      make("b", {}, numberOf(weight)),
      ...(same ? [`: ${percent(weight)} of what is read comes from here.`] : [` instead of ${numberOf(before)}.`]),
    );
    reset.hidden = isUnchanged(look, settings);
    drawScore(now.scores[place]);
    drawTable(place);
    drawRead(place, weight);
    paint();
  }

  function drawScore(score) {
    const terms = termsOf(look, look.keys[column]),
      sum = terms.at(-1)?.values;
    const rows = [stripOf("query q", look.query), stripOf("key k", look.keys[column])];
    if (look.score.name === "location") rows.pop();
    const most = sum
      ? [...sum.keys()].sort((one, other) => Math.abs(sum[other]) - Math.abs(sum[one])).slice(0, 2)
      : [];
    const largest = most.map(at => `${signed(sum[at])} (number ${at + 1})`).join(", ");
    between.replaceChildren(
      ...rows,
      ...terms.map(({name, values}) => stripOf(name, values)),
      make(
        "p",
        {class: "note"},
        ...(sum ? [`${sum.length} numbers; most add ${largest}. `] : []),
        "Score: ",
        make("b", {}, Number.isFinite(score) ? signed(score) : "none: it may not look there"),
      ),
    );
  }

  function drawTable(place) {
    const {places, scores, steps, weights} = now,
      rows = new Set([...strongest(weights, FEW), place]);
    for (const word of settings.hidden) rows.add(places.indexOf(word));
    const shown = [...rows].sort((one, other) => one - other),
      rest = weights.length - shown.length;
    const left = weights.reduce((sum, weight, at) => sum + (rows.has(at) ? 0 : weight), 0);
    table.replaceChildren(
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          ...["place", "score"].map(name => make("th", {scope: "col"}, name)),
          ...steps.map(({name, told}) => make("th", {scope: "col", title: told}, name)),
          make("th", {scope: "col"}, "mask"),
        ),
      ),
      make("tbody", {}, ...shown.map(at => rowOf(at, at === place))),
      ...(rest ? [make("caption", {}, `and ${rest} more places, together ${numberOf(left)}`)] : []),
    );

    function rowOf(at, on) {
      const word = places[at],
        box = make("input", {type: "checkbox", "aria-label": `mask ${wordName(word)}`});
      box.checked = settings.hidden.has(word);
      box.addEventListener("change", () => {
        if (box.checked) settings.hidden.add(word);
        else settings.hidden.delete(word);
        draw();
        table.querySelector(`[aria-label="${CSS.escape(`mask ${wordName(word)}`)}"]`)?.focus();
      });
      return make(
        "tr",
        {class: on ? "on" : null},
        make("th", {scope: "row"}, tokenOf(wordName(word), PLACE)),
        make("td", {}, Number.isFinite(scores[at]) ? signed(scores[at]) : "−∞"),
        ...steps.map(({values}) => {
          const bar = make("span", {class: "share"});
          bar.style.setProperty("--share", values[at]);
          return make("td", {}, bar, numberOf(values[at]));
        }),
        make("td", {}, box),
      );
    }
  }

  function wordName(word) {
    return names[word] || `place ${word}`;
  }

  function drawRead(place, weight) {
    const read = readOf(now.weights, now.places, look.values);
    reading.replaceChildren(
      stripOf("value v", look.values[column]),
      stripOf(`${numberOf(weight)} × v`, look.values[column].map(value => weight * value), look.values[column]),
      stripOf("read: all together", read),
    );
  }

  function paint() {
    const ramp = readRamp(element, "--diverging");
    for (const canvas of element.querySelectorAll(".strip-of canvas")) canvas.paint?.(ramp);
  }

  draw();
  return {close: onTheme(paint), weights: () => now.weights};
}

function isUnchanged(look, settings) {
  const plain = unchanged(look);
  return Object.keys(plain).every(name =>
    name === "hidden" ? !settings.hidden.size : name === "drawn" ? settings.drawn === null : settings[name] === plain[name],
  );
}

function readLook(data) {
  const rowsOf = table => {
      const {shape, values} = readTable(table);
      return Array.from({length: shape[0]}, (_, row) => [...values.subarray(row * shape[1], (row + 1) * shape[1])]);
    },
    list = table => [...readTable(table).values];
  const look = {
    ...data,
    names: data.columns.map(clean),
    query: list(data.query),
    keys: rowsOf(data.keys),
    values: rowsOf(data.values),
    scores: list(data.scores),
    weights: list(data.weights),
    beside: Object.fromEntries(Object.entries(data.beside).map(([name, table]) => [name, list(table)])),
  };
  look.content = look.keys.map(key => (termsOf(look, key).at(-1)?.values ?? []).reduce((sum, value) => sum + value, 0));
  return look;
}

function percent(share) {
  return `${Math.round(100 * share)} %`;
}

/** The settings that make sense for a look: each {element, show()}. */
function slidersOf(look, settingsNow, changed) {
  const {scores, beside, column, weigh} = look,
    last = scores.length - 1;
  const made = [
    slider("temperature", 0.1, 4, 0.05, "temperature", "Below 1 sharper, above 1 flatter."),
    slider("scale of the score", 0, 4, 0.05, "scale", "0: all places alike; 1: as the model has it."),
    ...(beside.centre ? [slider("centre of the window", 0, last, 0.1, "centre", "Where the model guessed that it should look.")] : []),
    ...(beside.gate ? [slider("gate g", 0, 1, 0.01, "gate", "1: look for the content; 0: stay where it was.")] : []),
    ...(beside.gamma ? [slider("sharpness γ", 1, 20, 0.1, "gamma", "How much the weights are sharpened.")] : []),
    placeSlider(),
  ];
  if (weigh.name === "hard") made.push(drawButton());
  return made;

  function slider(name, low, high, step, key, help) {
    return row(name, {min: low, max: high, step}, help, () => settingsNow()[key], value => {
      settingsNow()[key] = value;
    });
  }

  /** The word that was opened stands somewhere else; its key stays as it is. */
  function placeSlider() {
    return row("place of the word", {min: 0, max: last, step: 1}, "Its key is kept: where only keys are compared, the weight goes with the word.",
      () => settingsNow().moved?.[1] ?? column,
      value => {
        settingsNow().moved = value === column ? null : [column, value];
      });
  }

  function row(name, range, help, read, write) {
    const input = make("input", {type: "range", ...range, title: help}),
      told = make("output", {});
    const show = () => {
      input.value = read();
      told.textContent = Number(read().toFixed(2));
    };
    input.addEventListener("input", () => {
      write(Number(input.value));
      told.textContent = Number(Number(input.value).toFixed(2));
      changed();
    });
    show();
    return {element: make("label", {}, make("span", {}, name), input, told), show};
  }

  function drawButton() {
    const button = make("button", {type: "button", class: "toggle", title: "As in training: one place by its probability"}, "Draw a place");
    button.addEventListener("click", () => {
      const settings = settingsNow(),
        shares = weighed(look, settings).steps[0].values;
      let left = Math.random();
      settings.drawn = shares.findIndex(share => (left -= share) < 0);
      changed();
    });
    return {element: button, show() {}};
  }
}

const READS = "x a weighted sum of what the cell reads and remembers";

/** A gate opened: how its number came out of the sigmoid; `from`: what goes in. The mean of gates came out of none. */
export function showGate(element, {gate, row, column, from = READS}, {close}) {
  const end = make("button", {type: "button", class: "toggle", "aria-label": "Close the opened gate"}, "×"),
    x = Math.log(gate / (1 - gate)),
    canvas = make("canvas", {width: 300, height: 120, "aria-hidden": "true"});
  end.addEventListener("click", close);
  element.replaceChildren(
    make("div", {class: "cell-head"}, make("h3", {}, "Gate of ", tokenOf(row), " at ", tokenOf(column, NAMED)), end),
    make("p", {class: "result"}, "It is ", make("b", {}, numberOf(gate)), `: ${percent(gate)} of each number goes through.`),
    ...(row === MEAN
      ? [make("p", {class: "note"}, "This is the mean over all gates of the layer. Open one of the rows below to see how a gate came about.")]
      : [
          make("p", {class: "note formula"}, `gate = σ(x) = 1 / (1 + e⁻ˣ), ${from}`),
          canvas,
          make("p", {class: "note"}, "Here x = ", make("b", {}, Number.isFinite(x) ? signed(x) : x < 0 ? "far below 0" : "far above 0"), ": below 0 the gate is more shut than open."),
        ]),
  );
  if (row === MEAN) return {close() {}};
  const paint = () => {
    const pen = canvas.getContext("2d"),
      style = getComputedStyle(element),
      xOf = value => 150 + 25 * Math.max(-6, Math.min(6, value)),
      yOf = share => 110 - 100 * share;
    pen.clearRect(0, 0, 300, 120);
    pen.strokeStyle = style.getPropertyValue("--edge");
    for (const share of [0, 0.5, 1]) {
      pen.beginPath();
      pen.moveTo(0, yOf(share));
      pen.lineTo(300, yOf(share));
      pen.stroke();
    }
    pen.strokeStyle = style.getPropertyValue("--line");
    pen.lineWidth = 2;
    pen.beginPath();
    for (let at = -6; at <= 6; at += 0.1) pen.lineTo(xOf(at), yOf(1 / (1 + Math.exp(-at))));
    pen.stroke();
    pen.fillStyle = style.getPropertyValue("--mark");
    pen.beginPath();
    pen.arc(xOf(x), yOf(gate), 6, 0, 7);
    pen.fill();
  };
  paint();
  return {close: onTheme(paint)};
}
