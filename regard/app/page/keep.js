// Keeping what is seen: pictures and numbers as files, and the address of the page.
import {Failure, request} from "./api.js";
import {button, make} from "./dom.js";

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

/** A menu of files. `fetchFile(form, ask)` calls `ask(address, settings)` with the address of one. */
export function keepMenu(fetchFile) {
  const told = make("p", {class: "aside", role: "status"});
  const menu = make("details", {class: "menu"}, make("summary", {}, "Download"), make("div", {class: "items"},
    ...Object.entries(FORMS).map(([form, text]) => button(text, () => download(form), {class: "plain"})), told));

  async function download(form) {
    told.textContent = "Drawing …";
    try {
      const read = async response => [await response.blob(), nameOf(response, form)];
      save(...await fetchFile(form, (address, settings) => request(address, settings, read)));
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
