// The state in the address, after "#": what is asked of which model, and what is shown of the answer.
//
// {input: {text} | {example} | {image: true} | {}, options, panels: [{model, task, site, view, steps, within, text}, ...]};
// `within` and `text` are of the second panel: what of the same model is compared, and a text that was changed. Options are
// null where an address names no input either. Images of one's own are no part of it: {image: true}, {options: {support: true}}.
// `view` is what a view keeps (head, row, ...); `steps` the tokens so far where somebody steps through decoding.

const OWN = ["model", "task", "site", "within"];

export function readAddress(hash = location.hash) {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const input = {};
  if (found.has("text")) input.text = found.get("text");
  else if (found.has("example")) input.example = Number(found.get("example")) || 0;
  else if (found.has("image")) input.image = true;
  const panels = ["", "2."].filter(prefix => found.has(`${prefix}model`)).map(prefix => readPanel(found, prefix));
  const plain = !found.has("options") && !Object.keys(input).length;  // a model alone: its own example
  return {input, options: plain ? null : readJson(found.get("options")), panels};
}

function readPanel(found, prefix) {
  const panel = {view: readJson(found.get(`${prefix}view`))};
  for (const name of OWN) panel[name] = found.get(prefix + name) ?? "";
  if (prefix && found.has(`${prefix}text`)) panel.text = found.get(`${prefix}text`);
  if (found.has(`${prefix}steps`))
    panel.steps = found.get(`${prefix}steps`).split(".").filter(Boolean).map(Number).filter(Number.isSafeInteger);
  return panel;
}

function readJson(text) {
  try {
    const found = JSON.parse(text ?? "{}");
    return found && typeof found === "object" && !Array.isArray(found) ? found : {};
  } catch {
    return {};
  }
}

export function addressOf(state) {
  const found = new URLSearchParams();
  state.panels.forEach((panel, number) => {
    const prefix = number ? `${number + 1}.` : "";
    for (const name of OWN) if (panel[name]) found.set(prefix + name, panel[name]);
    if (Object.keys(panel.view ?? {}).length) found.set(`${prefix}view`, JSON.stringify(panel.view));
    if (number && panel.text !== undefined) found.set(`${prefix}text`, panel.text);
    if (panel.steps) found.set(`${prefix}steps`, panel.steps.join("."));
  });
  for (const [name, value] of Object.entries(state.input)) found.set(name, value);
  if (Object.keys(state.options).length) found.set("options", JSON.stringify(state.options));
  return `#${found}`;
}

/** `push`: a new entry of the history; else the present one is changed. */
export function writeAddress(state, push) {
  const address = addressOf(state);
  if (address === location.hash) return;
  if (push) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}
