// A server that listens to others asks for its token: a form in a dialog, which keeps what is on the page.
import {Failure, post} from "./api.js";
import {make, field} from "./dom.js";

export function askForToken() {
  return new Promise(done => {
    const input = make("input", {type: "password", autocomplete: "current-password", required: true, spellcheck: "false"});
    const told = make("p", {class: "error", role: "alert"});
    const form = make("form", {method: "dialog"}, make("h2", {}, "This server asks for its token"),
      make("p", {}, "It was printed when the server started."), field("Token", input), told,
      make("button", {type: "submit", class: "main"}, "Sign in"));
    const dialog = make("dialog", {class: "sign-in", "aria-label": "Sign in"}, form);
    dialog.addEventListener("cancel", event => event.preventDefault());
    form.addEventListener("submit", async event => {
      event.preventDefault();
      try {
        await post("sign-in", {token: input.value});
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        told.textContent = error.message;
        return;
      }
      dialog.close();
      dialog.remove();
      done(input.value);
    });
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
}
