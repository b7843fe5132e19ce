// How far each channel of each block is open: one row as bars, several as lines over the channels.

import {
  clamp,
  clean,
  colourOf,
  enter,
  headingOf,
  largest,
  make,
  onTheme,
  pointIn,
  readTable,
  sliderOf,
  steer,
  tellPlace,
  toldLine,
  tokenOf,
  topOf,
} from "./parts.js";
import {siteTitle, spokenTitle} from "./said.js";

const HINT = "Each bar is a channel of the network; high lets what it saw through, low shuts it out. Point at a channel, or use ← and →, to see its gate.";
const FROM = "x = W₂ max(0, W₁ z), z the mean of each channel over the image";
const DASHES = [[], [7, 3], [7, 3, 2, 3], [2, 3]];
const NAMED = 3; // channels named as the most open, and as many as the least open
const AXIS = 30,
  BELOW = 16; // pixels for the numbers at the left and below

export function show(element, data, host = {}) {
  const panels = Object.entries(data.panels).map(([name, table]) => {
    const {
      shape: [count, channels],
      values,
    } = readTable(table);
    return {
      name,
      said: data.said,
      channels,
      lines: Array.from({length: count}, (_, row) => values.subarray(row * channels, (row + 1) * channels)),
    };
  });
  const most = Math.max(...panels.flatMap(({lines}) => lines.map(largest))),
    bars = data.rows.length === 1,
    told = toldLine(bars && host.open ? `${HINT} A click opens it.` : HINT),
    root = make("div", {class: `view ${bars ? "single" : "lines"}`});
  const plots = panels.map((panel, at) => {
    const top =
      data.scale === undefined
        ? 1
        : topOf(data.scale === "each" ? Math.max(...panel.lines.map(largest)) : most, data.scale);
    return plotOf(
      panel,
      top,
      bars,
      channel => {
        tell(at, channel);
        if (others.length) showOpening(at, channel);
      },
      () => told.rest(),
      channel => {
        if (bars) host.open?.({gate: panel.lines[0][channel], names: [`channel ${channel}`, siteTitle(clean(panel.name), data.said)], from: FROM});
      },
    );
  });
  const image = data.image ?? host.image,
    legend = make("p", {class: "key legend"}),
    opening = make("div", {class: "opening", "aria-hidden": "true"});
  let others = [], // other images with their gates: {image, panels: {name: gates}}
    closed = false;

  /** "block 1.1, gates of channels · stages.0.0.excite, channel 12: star 0.98 ring 0.33" */
  function tell(at, channel) {
    const {name, lines} = panels[at],
      signs = legend.querySelectorAll("canvas");
    told.tell(
      make("b", {}, siteTitle(clean(name), data.said)),
      `, channel ${channel}: `,
      ...lines.flatMap((line, row) => {
        const number = make("span", {class: "number"}, line[channel].toFixed(3));
        if (bars) return [number];
        const sign = make("canvas", {class: "sign-line", "aria-hidden": "true"});
        copySign(signs[row], sign);
        return [sign, tokenOf(data.rows[row]), " ", number, " "];
      }),
    );
  }

  /** The images that open a channel, the one that opens it most first. */
  function showOpening(at, channel) {
    const found = others.map(one => ({image: one.image, gate: one.panels[panels[at].name][channel]}));
    found.sort((one, other) => other.gate - one.gate);
    opening.replaceChildren(
      make("p", {class: "small"}, `${spokenTitle(clean(panels[at].name), data.said).title}: channel ${channel} is opened most by`),
      ...found.map(({image: url, gate}) =>
        make("figure", {}, make("img", {src: url, alt: ""}), make("figcaption", {}, gate.toFixed(2))),
      ),
    );
  }

  function repaint() {
    const colours = colourOf(element, "--lines")
      .split(",")
      .map(colour => colour.trim());
    const looks = data.rows.map((_, at) => ({
      colour: bars ? colourOf(element, "--line") : colours[at % colours.length],
      dashes: DASHES[(at + Math.floor(at / colours.length)) % DASHES.length],
    }));
    if (!bars)
      legend.replaceChildren(...data.rows.map((name, at) => make("span", {}, signOf(looks[at]), clean(name))));
    for (const plot of plots) plot.paint(looks, colourOf(element, "--edge"), colourOf(element, "--quiet"));
  }

  enter(element, "gates");
  element.append(...headingOf(data, host), root);
  root.append(
    told.line,
    ...(bars ? [] : [legend]),
    make(
      "div",
      {class: "blocks"},
      ...(image
        ? [make("div", {class: "beside"}, make("img", {class: "input", src: image, alt: "the image"}), opening)]
        : []),
      make("div", {class: "plots"}, ...plots.map(plot => plot.box)),
    ),
  );
  repaint();
  if (bars && image) host.examples?.().then(found => {
    if (closed || !found.length) return;
    others = found.map(one => ({
      image: one.image,
      panels: Object.fromEntries(Object.entries(one.data.panels).map(([name, table]) => [name, readTable(table).values])),
    }));
    showOpening(...mostSelective(panels, others));
  });
  const stop = onTheme(repaint),
    sized = new ResizeObserver(repaint);
  sized.observe(root);
  return {
    close() {
      closed = true;
      stop();
      sized.disconnect();
    },
  };
}

/** The block and the channel whose gate differs most between the images. */
function mostSelective(panels, others) {
  let found = [0, 0],
    widest = -1;
  panels.forEach(({name, channels}, at) => {
    for (let channel = 0; channel < channels; channel++) {
      const gates = others.map(one => one.panels[name][channel]),
        between = Math.max(...gates) - Math.min(...gates);
      if (between > widest) [found, widest] = [[at, channel], between];
    }
  });
  return found;
}

/** One block: its name, what is said of it, and a plot that one can point at. */
function plotOf(panel, top, bars, tell, rest, open) {
  const {name, channels, lines} = panel,
    canvas = make("canvas", {"aria-hidden": "true"}),
    mark = make("div", {class: "mark", hidden: true});
  const places = sliderOf(`channel of ${clean(name)}`, channels, "no channel is chosen");
  const plot = make("div", {class: "plot", ...places}, canvas, mark);
  const box = make(
    "section",
    {},
    make("p", {class: "sub", dir: "auto"}, siteTitle(clean(name), panel.said)),
    plot,
    make("p", {class: "small"}, noteWords(lines)),
    ...(bars ? [make("p", {class: "small"}, namedWords(lines[0]))] : []),
  );
  let channel = null;

  function lookAt(next) {
    channel = next;
    mark.hidden = next === null;
    if (next === null) return rest();
    const width = plot.clientWidth - AXIS,
      step = width / channels;
    mark.style.setProperty("left", `${AXIS + (next + 0.5) * step - Math.max(2, step) / 2}px`);
    mark.style.setProperty("width", `${Math.max(2, step)}px`);
    tellPlace(plot, next, `channel ${next}: ${lines.map(line => line[next].toFixed(3)).join(", ")}`);
    tell(next);
  }

  plot.addEventListener("pointermove", event => {
    const [left] = pointIn(plot, event);
    lookAt(clamp(Math.floor(((left - AXIS) / (plot.clientWidth - AXIS)) * channels), channels));
  });
  plot.addEventListener("pointerleave", () => lookAt(null));
  plot.addEventListener("click", () => {
    if (channel !== null) open(channel);
  });
  plot.addEventListener("keydown", event => {
    if (event.key === "Enter" && channel !== null) open(channel);
  });
  steer(
    plot,
    (down, across) => lookAt(channel === null ? 0 : clamp(channel + (across || down), channels)),
    () => lookAt(null),
  );
  return {box, paint: (looks, edge, quiet) => paintPlot(canvas, plot, panel, top, bars, looks, edge, quiet)};
}

function paintPlot(canvas, plot, {channels, lines}, top, bars, looks, edge, quiet) {
  const fine = Math.min(2, window.devicePixelRatio || 1),
    pen = canvas.getContext("2d");
  const wide = plot.clientWidth || 400,
    high = plot.clientHeight || 110,
    height = high - BELOW - 6,
    step = (wide - AXIS) / channels;
  const yOf = gate => 6 + height * (1 - Math.min(1, gate / top)),
    xOf = channel => AXIS + (channel + 0.5) * step;
  canvas.width = fine * wide;
  canvas.height = fine * high;
  pen.scale(fine, fine);
  pen.font = `11px ${getComputedStyle(plot).fontFamily}`;
  pen.fillStyle = quiet;
  pen.strokeStyle = edge;
  for (const part of [0, 0.5, 1]) {
    pen.textAlign = "right";
    pen.fillText(String(Number((part * top).toPrecision(2))), AXIS - 6, yOf(part * top) + 4);
    pen.beginPath();
    pen.moveTo(AXIS, yOf(part * top));
    pen.lineTo(wide, yOf(part * top));
    pen.stroke();
  }
  pen.textAlign = "left";
  pen.fillText("0", AXIS, high - 2);
  pen.textAlign = "right";
  pen.fillText(`channel ${channels - 1}`, wide, high - 2);
  lines.forEach((line, row) => {
    pen.strokeStyle = pen.fillStyle = looks[row].colour;
    if (bars)
      return line.forEach((gate, channel) =>
        pen.fillRect(xOf(channel) - step * 0.43, yOf(gate), step >= 3 ? step * 0.86 : step, 6 + height - yOf(gate)),
      );
    pen.setLineDash(looks[row].dashes);
    pen.lineWidth = 1.6;
    pen.beginPath();
    line.forEach((gate, channel) => pen.lineTo(xOf(channel), yOf(gate)));
    pen.stroke();
  });
}

function signOf({colour, dashes}) {
  const sign = make("canvas", {class: "sign-line", "aria-hidden": "true", width: 56, height: 16}),
    pen = sign.getContext("2d");
  pen.scale(2, 2);
  pen.strokeStyle = colour;
  pen.lineWidth = 2.4;
  pen.setLineDash(dashes);
  pen.beginPath();
  pen.moveTo(0, 4);
  pen.lineTo(28, 4);
  pen.stroke();
  return sign;
}

function copySign(from, to) {
  to.width = from.width;
  to.height = from.height;
  to.getContext("2d").drawImage(from, 0, 0);
}

/** Mean and standard deviation: of one row over the channels, else between the rows, as the mean over the channels. */
function noteWords(lines) {
  const all = lines.flatMap(line => [...line]),
    mean = averageOf(all);
  if (lines.length === 1)
    return `${all.length.toLocaleString("en")} channels: mean ${mean.toFixed(2)} ± ${deviationOf(all).toFixed(2)}`;
  const between = Array.from(lines[0], (_, channel) => deviationOf(lines.map(line => line[channel])));
  return `mean ${mean.toFixed(2)}, between lines ± ${averageOf(between).toFixed(3)}`;
}

function averageOf(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function deviationOf(values) {
  const mean = averageOf(values);
  return Math.sqrt(averageOf(values.map(value => (value - mean) ** 2)));
}

function namedWords(line) {
  const order = [...line.keys()].sort((one, other) => line[other] - line[one]),
    few = Math.max(1, Math.min(NAMED, Math.floor(order.length / 2)));
  const words = channels => channels.map(channel => `${channel} (${line[channel].toFixed(2)})`).join(", ");
  return `most open: ${words(order.slice(0, few))} · least open: ${words(order.slice(-few).reverse())}`;
}
