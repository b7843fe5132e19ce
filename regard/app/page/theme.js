// Light and dark: the system's choice unless the person made another. And large, for a room.
import {button} from "./dom.js";

const KEY = "regard-theme", NEXT = {"": "dark", dark: "light", light: ""};
const NAMES = {"": "as the system", dark: "dark", light: "light"}, SIGNS = {"": "◐", dark: "●", light: "○"};

function kept() {
  try {
    const found = localStorage.getItem(KEY) ?? "";
    return found in NEXT ? found : "";
  } catch {
    return "";
  }
}

function apply(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

export function themeButton() {
  let theme = kept();
  apply(theme);
  const made = button("", () => {
    theme = NEXT[theme];
    apply(theme);
    name();
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // A browser that keeps nothing.
    }
  }, {class: "plain"});
  const name = () => {
    made.textContent = SIGNS[theme];
    made.title = `Colours: ${NAMES[theme]}`;
    made.setAttribute("aria-label", made.title);
  };
  name();
  return made;
}

/** Large type, and nothing but question, answer and picture. */
export function projectorButton(changed) {
  const made = button("Projector", () => {
    const on = document.body.classList.toggle("projector");
    made.setAttribute("aria-pressed", String(on));
    changed();
    dispatchEvent(new Event("resize"));
  }, {class: "plain wide-only", "aria-pressed": "false", title: "Large type for a room: question, answer and picture alone"});
  return made;
}
