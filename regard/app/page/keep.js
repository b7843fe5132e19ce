// Keeping what is seen: pictures and numbers as files, and the address of the page.
import {addressOf} from "./address.js";
import {Failure, MODELS, isKept, request} from "./api.js";
import {button, make} from "./dom.js";

const TABLE = "<!-- kept -->";  // in page/kept.html: where the answers go
const FORMS = {png: "Picture (PNG)", svg: "Drawing (SVG)", csv: "Numbers (CSV)", json: "Numbers (JSON)"};

/** The file name that the server gave. */
function nameOf(response, form) {
  return response.headers.get("content-disposition")?.match(/filename="([^"]+)"/)?.[1] ?? `regard.${form}`;
}

function save(blob, name) {
  const link = make("a", {href: URL.createObjectURL(blob), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The page as one HTML file without a server, that shows what these panels show. */
async function savedPage({panels, state, entries}) {
  const page = await request("page/kept.html", {}, response => response.text());
  const models = new Map(), answers = [...entries];
  for (const panel of panels.filter(one => one.answer)) {
    const {model, task, question} = panel, {values} = question();
    const own = {...task, inputs: {...task.inputs, examples: values}}, before = models.get(model.name)?.tasks ?? [];
    models.set(model.name, {...model, partial: false, tasks: [...before.filter(one => one.task !== task.task), own]});
    answers.push(...await panel.entries());
  }
  answers.push([MODELS, null, {models: [...models.values()]}, 200]);
  const hash = addressOf({...state, input: "text" in state.input ? state.input : {example: 0}});
  const table = JSON.stringify({answers, files: {}, hash}).replaceAll("<", "\\u003c");
  return page.replace(TABLE, () => `<script type="application/json" id="kept">${table}</script>`);
}

/** A menu of files. `fetchFile(form, ask)` calls `ask(address, settings)` with the address of one; `page()` gives the
    page, to be saved as a whole. A saved page has none, as there is no server to draw them. */
export function keepMenu(fetchFile, page) {
  if (isKept) return make("span");
  const told = make("p", {class: "aside", role: "status"});
  const menu = make("details", {class: "menu"}, make("summary", {}, "Download"), make("div", {class: "items"},
    ...Object.entries(FORMS).map(([form, text]) => button(text, () => keep(() => drawn(form)), {class: "plain"})),
  button("This page (HTML)", () => keep(whole), {class: "plain"}), told));

  const drawn = form => fetchFile(form, (address, settings) =>
    request(address, settings, async response => [await response.blob(), nameOf(response, form)]));

  async function whole() {
    const {panels} = page(), html = await savedPage(page());
    return [new Blob([html], {type: "text/html"}), `${panels.map(one => one.model.name).join("-")}.html`];
  }

  async function keep(made) {
    told.textContent = "Drawing …";
    try {
      save(...await made());
      told.textContent = "";
      menu.open = false;
      menu.querySelector("summary").focus();
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      told.textContent = error.message;
    }
  }

  menu.addEventListener("keydown", event => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  menu.addEventListener("focusout", event => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  return menu;
}

/** Copies the address of what is seen, once `write()` has brought it up to date; `warning()` says what it lacks. */
export function shareButton(warning, write) {
  const told = make("span", {class: "aside", role: "status"});
  const made = button("Copy link", async () => {
    write();
    try {
      await navigator.clipboard.writeText(location.href);
      told.textContent = warning() || "Copied.";
    } catch {
      told.textContent = `${warning()} Copy it from the address bar.`.trim();
    }
    setTimeout(() => { told.textContent = ""; }, 6000);
  }, {class: "plain"});
  return make("span", {class: "share"}, made, told);
}
