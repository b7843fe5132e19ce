// Every head of some layers as a small map; the chosen one large, as a map, as links or as text.

import {
  clamp,
  colourOf,
  label,
  largest,
  make,
  onTheme,
  paintCells,
  readColour,
  readHidden,
  readRamp,
  readTable,
  rove,
  scaleOf,
  topOf,
  topWords,
  withPieces,
} from "./parts.js";
import {showMatrix} from "./matrix.js";
import {siteTitle} from "./said.js";

const LOW = 200; // pixels: a chosen head that begins lower in the window is scrolled to
const TILE = 400_000; // weights of a head that are asked for at once: 0.8 MB
const SMALL = 56; // rows and columns of a small map; of more, the largest weight of several is shown

export function show(element, data, host = {}) {
  return withPieces(element, data, host, (root, shown, context) => showHeads(root, shown, host, context));
}

/** The heads of each site: {site, rows, columns, hidden, count, tall, wide, values}; with an overview the tables are
    smaller than rows and columns. */
function readSites({panels, rows, columns, mask}) {
  const own = (given, site) => (Array.isArray(given) || given?.shape ? given : given?.[site]);
  return Object.entries(panels).map(([site, table]) => {
    const {
      shape: [count, tall, wide],
      values,
    } = readTable(table);
    return {
      site,
      rows: own(rows, site),
      columns: own(columns, site),
      hidden: readHidden(own(mask, site)),
      count,
      tall,
      wide,
      values,
    };
  });
}

function showHeads(root, data, host, {state, keep, tools, open, pointed, languages}) {
  const sites = readSites(data),
    most = data.most ?? Math.max(...sites.map(({values}) => largest(values)));
  const tables = sites.map(one => ({one, tables: tablesOf(one)}));
  const panels = tables.flatMap(({one, tables: own}, site) =>
    own.map((weights, head) => ({one, site, head, weights})),
  );
  const topFor = weights => topOf(data.scale === "each" ? largest(weights) : most, data.scale);
  const alone = sites.every(one => one.count === 1); // each stands beside the next
  const grid = make("div", {class: alone ? "grid alone" : "grid"}),
    chosen = make("section", {class: "chosen"});
  const name = make("p", {class: "sub"}),
    stage = make("div", {class: "lined"});
  const canvases = panels.map(() => make("canvas", {"aria-hidden": "true"}));
  const buttons = panels.map(({one, head}, at) => {
    const title = titleOf(one, head, data.said);
    return make("button", {type: "button", title, "aria-label": title, "aria-pressed": "false"}, canvases[at]);
  });
  const tiles = make("div", {class: "tools"});
  let drawn = null,
    current = -1,
    from = 0; // the first row of a long text's tile

  if (tools.length) grid.append(make("div", {class: "tools"}, ...tools));
  sites.forEach((one, site) =>
    grid.append(
      make(
        "div",
        {class: "of-site"},
        make("p", {class: "sub site", dir: "auto"}, siteTitle(label(one.site, 60), data.said)),
        make("div", {class: `heads ${sizeOf(one.count)}`}, ...buttons.filter((_, at) => panels[at].site === site)),
      ),
    ),
  );
  grid.append(
    scaleOf(
      data.scale === "each" ? `largest ${data.of ?? "weight"} of each head` : topWords(topFor([]), most),
      data.scale === "each" ? "" : (data.of ?? "weight"),
    ),
  );
  tiles.hidden = true;
  chosen.append(name, tiles, stage);
  root.replaceChildren(make("div", {class: "sheet"}, grid, chosen));

  function paint() {
    const ramp = readRamp(root),
      grey = readColour(colourOf(root, "--hidden"));
    panels.forEach(({one, weights}, at) => {
      const small = shrink(weights, one),
        top = topFor(weights);
      paintCells(
        canvases[at],
        small.tall,
        small.wide,
        place => small.values[place] / top,
        ramp,
        small.hidden && (place => small.hidden[place]),
        grey,
      );
    });
  }

  async function choose(at) {
    if (at === current) return;
    buttons[current]?.setAttribute("aria-pressed", "false");
    buttons[at].setAttribute("aria-pressed", "true");
    current = at;
    const {one, head, weights} = panels[at];
    name.textContent = titleOf(one, head, data.said);
    keep({site: one.site, head});
    let whole = {...one, values: weights};
    if (data.side) {
      stage.setAttribute("aria-busy", "true");
      const rows = tileOf(one, from);
      const wanted = {site: one.site, head, pieces: Boolean(state.pieces), ...(rows ? {rows: `${rows[0]}-${rows[1]}`} : {})};
      const found = readSites(await host.part(wanted))[0];
      if (current !== at || (rows && rows[0] !== from)) return;
      stage.removeAttribute("aria-busy");
      whole = found;
      showTiles(at, rows);
    }
    drawn?.close();
    const look = {
      table: {table: `panels/${one.site}`, site: one.site, head},
      rows: whole.rows,
      columns: whole.columns,
      weights: whole.values,
      hidden: whole.hidden,
      top: topFor(whole.values),
      scale: topFor(whole.values),
      of: data.of,
    };
    drawn = showMatrix(stage, look, {state, keep, open, pointed, languages});
  }

  /** Of a long text some rows at a time: which, and buttons for those before and after. */
  function showTiles(at, rows) {
    tiles.hidden = !rows;
    if (!rows) return;
    const [first, last] = rows,
      {one} = panels[at];
    const move = (text, to) => {
      const button = make("button", {type: "button"}, text);
      button.disabled = to < 0 || to >= one.rows.length;
      button.addEventListener("click", () => {
        from = to;
        current = -1;
        choose(at);
      });
      return button;
    };
    const told = make("span", {}, `Rows ${first + 1} to ${last + 1} of ${one.rows.length}`);
    tiles.replaceChildren(move("Earlier rows", first ? Math.max(0, first - tileSize(one)) : -1), told, move("Later rows", first + tileSize(one)));
  }

  const stop = rove(buttons, (at, down, across) => nextPanel(panels, at, down, across), choose);
  buttons.forEach((button, at) =>
    button.addEventListener("click", () => {
      choose(at);
      if (chosen.getBoundingClientRect().top > innerHeight - LOW) chosen.scrollIntoView(); // on a phone it stands below
    }),
  );
  paint();
  const first = Math.max(
    0,
    panels.findIndex(({one, head}) => one.site === state.site && head === state.head),
  );
  stop(first);
  choose(first);
  const unwatch = onTheme(paint);
  return {
    point: place => drawn?.point(place),
    mark: place => drawn?.mark(place),
    close() {
      drawn?.close();
      unwatch();
    },
  };
}

function tileSize(one) {
  return Math.max(1, Math.floor(TILE / one.columns.length));
}

/** The first and the last row of the tile that begins here; null where a head is asked for whole. */
function tileOf(one, from) {
  const size = tileSize(one);
  return one.rows.length <= size ? null : [from, Math.min(one.rows.length, from + size) - 1];
}

function sizeOf(count) {
  return count <= 4 ? "large" : count <= 8 ? "middle" : count <= 12 ? "small" : "smallest";
}

function titleOf({site, count}, head, said) {
  return siteTitle(count > 1 ? `${label(site, 80)}, head ${head}` : label(site, 80), said);
}

function tablesOf({count, tall, wide, values}) {
  return Array.from({length: count}, (_, head) => values.subarray(head * tall * wide, (head + 1) * tall * wide));
}

/** Up and down go to the same head of another site, left and right to another head. */
function nextPanel(panels, at, down, across) {
  if (across) return clamp(at + across, panels.length);
  const {site, head} = panels[at],
    found = panels.filter(panel => panel.site === site + down);
  return found.length ? panels.indexOf(found[Math.min(head, found.length - 1)]) : at;
}

/** At most SMALL rows and columns: the largest weight of neighbours; hidden where all of them are. */
function shrink(weights, {tall, wide, hidden}) {
  const high = Math.min(SMALL, tall),
    across = Math.min(SMALL, wide);
  if (high === tall && across === wide) return {tall, wide, values: weights, hidden};
  const values = new Float32Array(high * across),
    grey = hidden ? new Uint8Array(high * across).fill(1) : null;
  for (let at = 0; at < weights.length; at++) {
    const row = Math.floor(at / wide),
      to = Math.floor((row * high) / tall) * across + Math.floor(((at % wide) * across) / wide);
    if (weights[at] > values[to]) values[to] = weights[at];
    if (grey && !hidden[at]) grey[to] = 0;
  }
  return {tall: high, wide: across, values, hidden: grey};
}
