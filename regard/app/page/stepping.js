// Decoding step by step: forward and back one token at a time, with the candidates, where the step looked, and what
// would follow another candidate.
import {percent} from "./answer.js";
import {Failure, modelPath, post, posted} from "./api.js";
import {marked} from "./changes.js";
import {button, make, select} from "./dom.js";
import {EVERY, clear, draw} from "./look.js";
import {siteTitle} from "../views/said.js";

const TOP = 10, MOST = 400;  // candidates; tokens that are written on at once

/** A token that can be seen: spaces and line ends as signs. */
function visible(text) {
  return text.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "∅";
}

/** The look of a step as data of a view: over an image, or over words. */
function lookData({site, columns, weights, grid}, head, {image, said}) {
  const heads = head === "" ? weights : [weights[head]];
  const mean = weights[0].map((_, at) => heads.reduce((sum, one) => sum + one[at], 0) / heads.length);
  const title = `${site}${weights.length > 1 ? head === "" ? `, mean of ${weights.length} heads` : `, head ${head}` : ""}`;
  if (grid) {
    const rows = Array.from({length: grid[0]}, (_, row) => mean.slice(row * grid[1], (row + 1) * grid[1]));
    return {kind: "overlay", image, panels: {[title]: rows}, said, title: "", caption: ""};
  }
  return {kind: "shaded", weights: [mean], words: columns, queries: ["this step"], query: 0, said, title};
}

export class Stepping {
  /** `question()` gives {model, task, inputs, options, site, chosen, said, image, answer}; `changed(tokens)` is told of every
      step. Steps follow the answer, until the person chooses another token. */
  constructor(element, question, changed) {
    Object.assign(this, {element, question, changed, path: [], at: 0, known: new Map(), head: "", writing: null, showing: {}});
    this.picked = new Set();  // places of tokens that the person chose against the model
    this.against = make("p", {class: "against", dir: "auto", hidden: true});
    this.written = make("div", {class: "tokens", role: "group", "aria-label": "Written so far"});
    this.said = make("p", {class: "quiet", role: "status"});
    this.list = make("ol", {class: "candidates", "aria-label": "Candidates for the next token"});
    this.look = make("div", {class: "regard"});
    this.heads = make("div", {class: "heads-choice"});
    this.other = make("p", {class: "aside"});
    this.back = button("← Back", () => this.go(this.at - 1));
    this.forward = button("Forward →", () => this.step());
    this.end = button("Write to the end", () => this.writing ? this.stop() : this.writeOn());
    this.first = button("Start again", () => this.begin([]), {class: "plain"});
    element.replaceChildren(
      make("div", {class: "controls"}, this.back, this.forward, this.end, this.first,
        make("span", {class: "aside"}, "or ← and → on the keyboard")),
      this.written, this.said, this.against,
      make("div", {class: "step-view"}, make("section", {"aria-label": "Candidates"}, make("h3", {}, "What could follow"), this.list,
        make("p", {class: "aside"}, "Choose another candidate to see what would have followed.")),
      make("section", {"aria-label": "Look of this step"}, make("h3", {}, "Where this step looks"), this.other, this.heads, this.look)));
    element.addEventListener("keydown", event => this.key(event));
  }

  key(event) {
    const next = {ArrowLeft: () => this.go(this.at - 1), ArrowRight: () => this.step()}[event.key];
    if (!next || event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea, .regard")) return;
    event.preventDefault();
    next();
  }

  /** Begin after these tokens. */
  begin(tokens) {
    this.stop();
    this.known.clear();
    this.picked.clear();
    this.finished = null;
    [this.path, this.at] = [tokens, tokens.length];
    if (this.fork === null) this.path = this.original;
    return this.show();
  }

  /** The tokens of the answer that is shown. */
  get original() {
    return this.question().answer?.written ?? [];
  }

  /** Where the path leaves the answer; null: nowhere. */
  get fork() {
    const {original} = this, at = this.path.findIndex((token, place) => token !== original[place]);
    return at < 0 ? null : at;
  }

  get tokens() {
    return this.path.slice(0, this.at);
  }

  /** The next candidates after these tokens; each is asked for once. */
  ask(tokens) {
    const key = tokens.join(".");
    if (!this.known.has(key)) {
      const found = post(...this.asked(tokens));
      found.catch(() => this.known.delete(key));
      this.known.set(key, found);
    }
    return this.known.get(key);
  }

  asked(tokens) {
    const {model, task, inputs, options, site} = this.question();
    return [`${modelPath(model)}/${task}/step`, {inputs, options, prefix: tokens, top: TOP, ...site ? {site} : {}}];
  }

  /** The steps that were seen, for a page without a server. */
  async entries() {
    const found = [];
    for (const [key, step] of this.known) found.push([...this.asked(key ? key.split(".").map(Number) : []), await step, 200]);
    return found;
  }

  get ended() {
    if (this.path.length !== this.at) return false;
    return this.isOriginal || this.finished?.key === this.tokens.join(".");
  }

  /** Whether the path is the whole answer. */
  get isOriginal() {
    return this.path.length > 0 && this.path.length === this.original.length && this.fork === null;
  }

  async go(at) {
    if (at < 0 || at > this.path.length) return;
    const before = this.at;
    this.at = at;
    if (!await this.show()) this.at = before;  // else what is seen would lag behind
  }

  /** One token further: along the path, else the likeliest one. */
  async step() {
    if (this.ended) return;
    if (this.at < this.path.length) return this.go(this.at + 1);
    const {tokens, showing} = this, {candidates} = await this.ask(tokens).catch(error => this.fail(error, showing));
    if (candidates && this.showing === showing) return this.take(candidates[0], tokens);  // else another step came first
  }

  fail(error, showing) {
    if (!(error instanceof Failure)) throw error;
    if (this.showing === showing) {
      this.stop();
      this.said.textContent = error.message;
      this.said.classList.add("error");
    }
    return {};
  }

  /** One of the candidates after these tokens, which need not be those of now: the next ones may be on their way. */
  async take(candidate, tokens, picked = false) {
    this.picked = new Set([...this.picked].filter(at => at < tokens.length));
    if (picked) this.picked.add(tokens.length);
    this.path = candidate.ends ? tokens : [...tokens, candidate.token];
    this.finished = candidate.ends ? {key: tokens.join("."), text: candidate.text} : null;
    return this.go(this.path.length);
  }

  /** The file of the step that is shown. `ask(address, settings)` asks for it. */
  keep(form, ask) {
    const {model, task, inputs, options, site} = this.question(), {head, tokens: prefix} = this;
    const body = {inputs, options, prefix, form, ...site ? {site} : {}, ...head === "" ? {} : {head: Number(head)}};
    return ask(`${modelPath(model)}/${task}/step`, posted(body));
  }

  stop() {
    this.writing = null;
    this.end.textContent = "Write to the end";
  }

  /** Nothing more is shown, also of what was asked before. */
  close() {
    this.stop();
    this.showing = {};
  }

  async writeOn() {
    const own = this.writing = {};
    this.end.textContent = "Stop";
    if (this.at < this.path.length) await this.go(this.path.length);
    for (let count = 0; count < MOST && this.writing === own && !this.ended; count++) await this.step();
    if (this.writing === own) this.stop();
  }

  /** What follows these tokens; false: it could not be had. */
  async show() {
    const {tokens} = this, own = this.showing = {};  // what is shown later takes its place
    try {
      const found = await this.ask(tokens);
      if (this.showing !== own) return true;
      this.changed(tokens);
      this.said.classList.remove("error");
      this.fill(found);
    } catch (error) {
      this.fail(error, own);
      return this.showing !== own;
    }
    return true;
  }

  fill({written, text, candidates, look}) {
    const {ended, tokens, fork} = this;
    this.written.replaceChildren(...written.map((one, number) => {
      const forced = number === fork || this.picked.has(number), name = visible(one.text);
      return button(make("bdi", {}, name), () => this.go(number), {class: forced ? "token forced" : "token",
        title: forced ? "your choice" : null, "aria-label": `Back to before ${name}${forced ? ", your choice" : ""}`});
    }),
    ended && this.finished ? make("span", {class: "token end"}, visible(this.finished.text)) : make("span", {class: "caret", "aria-hidden": "true"}));
    this.said.textContent = ended ? this.isOriginal ? "The answer ends here." : "The text ends here." : `Token ${written.length + 1}. So far: ${text || "nothing"}`;
    this.back.disabled = this.at === 0;
    this.forward.disabled = this.end.disabled = Boolean(ended);
    this.compare(text);
    const next = ended ? candidates.find(one => one.ends)?.token : this.path[this.at];
    const usual = next ?? candidates[0]?.token;
    this.list.replaceChildren(...candidates.map(one => this.candidate(one, next, tokens, one.token !== usual)));
    this.showLook(look);
  }

  /** What another token changed, once the text is whole; before, what the answer was. */
  compare(text) {
    const {answer} = this.question();
    this.against.hidden = this.fork === null || !answer?.text;
    if (this.against.hidden) return;
    const parts = (own, other) => this.ended ? marked(own, other) : [own];
    this.against.replaceChildren(make("b", {}, "The answer: "), ...parts(answer.text, text), make("br"),
      make("b", {}, "With your choice: "), ...parts(text, answer.text));
  }

  candidate(one, next, tokens, picked) {
    const bar = make("span", {class: "gauge"}), name = one.ends ? `${visible(one.text)} (the end)` : visible(one.text);
    bar.style.setProperty("--share", one.probability);
    return make("li", {}, button(make("bdi", {class: "what"}, name), () => this.take(one, tokens, picked),
      {"aria-label": `${name}, ${percent(one.probability)}`, "aria-pressed": String(one.token === next)}),
    bar, make("span", {class: "amount"}, percent(one.probability)));
  }

  showLook(look) {
    const {chosen, site, said} = this.question(), name = code => siteTitle(code, said);
    this.other.textContent = look && chosen && look.site !== chosen
      ? `A step shows one place of attention: here ${name(look.site)}, not ${chosen === EVERY ? "all" : name(chosen)}.` : "";
    if (!look) {
      this.heads.replaceChildren();
      clear(this.look, make("p", {class: "aside"}, site ? `${name(site)} is not asked while the text is written, as it reads only what is `
        + "there before. Choose another place above." : "This model looks at nothing while it writes."));
      return;
    }
    const choose = head => {
      this.head = head;
      this.showLook(look);
    };
    const options = [["", "mean of all heads"], ...look.weights.map((_, head) => [String(head), `head ${head}`])];
    if (look.weights.length > 1) {
      if (!this.heads.children.length) this.heads.append(select(options, this.head, choose, {"aria-label": "Head"}));
    } else this.heads.replaceChildren();
    const head = this.head !== "" && Number(this.head) < look.weights.length ? Number(this.head) : "";
    draw(this.look, lookData(look, head, this.question())).catch(error => clear(this.look, error.message));
  }
}
