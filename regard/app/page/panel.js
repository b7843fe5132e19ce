// One model's side of the page: its answer, where it looked for it, and its decoding step by step.
import {Failure, events, get, isHeld, isKept, modelPath, post, withImages} from "./api.js";
import {showAnswer, textOf, vectorsOf} from "./answer.js";
import {textInput} from "./ask.js";
import {systemOf} from "./choose.js";
import {asSentence, button, make, newId, select} from "./dom.js";
import {keepMenu} from "./keep.js";
import {Opened, cellAddress, cellsOf} from "./opened.js";
import {EVERY, SIDE, TOO_MUCH, clear, draw, fetchLook, lookAddress, picture} from "./look.js";
import {valueOf} from "./pairs.js";
import {Stepping} from "./stepping.js";
import {siteTitle} from "../views/said.js";

const SITES = 12;  // of a model, which a saved page has all of
const LOST = 404, MADE_OF_SEVERAL = 422, USUAL = "usual picture";

export class Panel {
  /** `changed(push)`: what is seen is another; `drawn()`: it stands; `failed(message)`: for beside the input; `question()`:
      {values, options, asked, url}; `page()`: all panels; `pointed(place)`: somebody points in the picture. Of a second
      panel, `pairs()`: what can be compared; `choose(pair)`; `retext()`: the text that was changed is asked. */
  constructor({changed, drawn, failed, question, page, pointed, pairs = null, choose = null, retext = null}) {
    Object.assign(this, {changed, drawn, failed, question, page, pointed, pairs, choose, retext, pair: null, input: null});
    this.state = {model: "", task: "", site: "", view: {}};
    this.answer = this.model = this.task = this.data = null;
    this.seen = {site: ""};  // of which place the data are: another may have been chosen
    this.running = null;
    this.known = new Map();  // what is seen of examples
    this.head = make("header", {class: "panel-head"});
    this.out = make("div", {class: "answer", "aria-live": "polite", role: "region", tabindex: "-1"});
    this.tools = make("div", {class: "controls panel-tools"});
    this.look = make("div", {class: "regard"});
    this.cells = new Map();  // the weights of this answer that were opened, by their addresses
    this.opened = new Opened((place, first) => this.again(id => this.fetchCell(id, place, first)), {
      hasRoom: () => this.page().panels.length < 2,
      mark: place => this.look.shown?.mark?.(place),
      instead: error => error.status === MADE_OF_SEVERAL && !this.state.site ? this.layerButton() : "",
    });
    this.steps = make("div", {class: "stepping", hidden: true});
    this.stepping = new Stepping(this.steps, () => this.stepQuestion(), tokens => {
      if (!this.state.steps) return;  // attention is seen again meanwhile
      this.state.steps = tokens;
      this.changed(false);
    });
    this.element = make("section", {class: "panel"}, this.head, this.tools, this.out,
      make("div", {class: "seen"}, this.look, this.opened.element), this.steps);
  }

  /** Another model or task; what is kept of a view is that of the state. */
  set(model, task, state = {}) {
    Object.assign(this, {model, task});
    this.state = {site: "", view: {}, ...state, model: model.name, task: task.task};
    if (!this.sites.includes(this.state.site)) this.state.site = "";
    if (!task.steps) delete this.state.steps;
    const which = this.pairs ? "second, " : "";  // two may be of one model
    this.element.setAttribute("aria-label", `${which}${model.name}: ${task.task}`);
    this.out.setAttribute("aria-label", this.pairs ? "Second answer" : "Answer");
    this.head.replaceChildren(this.title(), make("p", {class: "quiet", title: this.describe()}, this.describe()));
    this.showText();
    this.out.replaceChildren();
    this.clearLook();
    this.look.removeAttribute("aria-busy");
    this.showTools();
  }

  /** What its places are called, by their names in the code. */
  get said() {
    return Object.fromEntries(this.model.sites.map(one => [one.name, one.said]));
  }

  get sites() {
    return ["", EVERY, ...this.model.sites.map(one => one.name)];
  }

  title() {
    if (!this.pairs) return make("h2", {}, this.model.name);
    const pairs = this.pairs(), value = valueOf(this.state);
    this.pair = pairs.find(one => one.value === value) ?? null;
    const group = (name, within) => ({name, options: pairs.filter(one => Boolean(one.state.within) === within).map(one => [one.value, one.text])});
    const heading = make("h2", {class: "unseen"}, this.model.name);
    const list = select([group("The same question, asked of", false), group("In the same model", true)], value,
      chosen => this.choose(pairs.find(one => one.value === chosen)), {"aria-label": "Compare with"});
    return make("div", {}, heading, list);
  }

  /** The text that was changed, if this is what is compared. */
  showText() {
    this.input = null;
    if (this.state.within !== "word") return;
    const ask = () => {
      this.state.text = this.input.state.text;
      this.retext();
    };
    this.input = textInput(this.task, ask, ask);
    this.input.set({text: this.state.text ?? ""});
    for (const box of this.input.element.querySelectorAll("textarea, input")) {
      box.addEventListener("change", () => { if (this.input.state.text !== this.state.text) ask(); });
      box.setAttribute("aria-label", "The text, changed");
    }
    this.head.append(this.input.element);
  }

  /** The panel whose answer this one shows too, seen in another place; null: it has its own. */
  get source() {
    return ["layer", "head"].includes(this.state.within) ? this.page().panels[0] : null;
  }

  /** Whether the mean of the heads of a site is seen, as in the usual picture beside it. */
  get isWhole() {
    const {site, within} = this.state, {heads = 0} = this.model.sites.find(one => one.name === site) ?? {};
    return within === "layer" && !this.source.state.site && heads > 1;
  }

  /** Whether this is asked another text than the first panel. */
  get isChanged() {
    return this.input !== null && this.state.text !== this.page().state.input.text;
  }

  describe() {
    const {about} = this.model;
    return [about.paper ?? systemOf(this.model), about.parameters && `${about.parameters} parameters`].filter(Boolean).join(" · ");
  }

  showTools() {
    const {said} = this, {sites} = this.model, named = kind => sites.filter(one => one.kind === kind)
      .map(one => [one.name, one.heads > 1 ? `${siteTitle(one.name, said)} (${one.heads} heads)` : siteTitle(one.name, said)]);
    const heads = sites.reduce((sum, one) => sum + one.heads, 0), parts = [];
    if (sites.length > 1 || heads > 1) {
      const options = [["", USUAL],
        ...heads > 1 ? [[EVERY, `all ${heads} heads`]] : [],
        {name: "Attention", options: named("attention")}, {name: "Gates", options: named("gates")}];
      const id = newId("site");
      parts.push(make("label", {for: id}, "Where"), select(options, this.state.site, site => this.chooseSite(site), {id}));
    }
    if (this.task.steps) parts.push(this.modes());
    this.keeping = keepMenu((form, ask) => this.state.steps ? this.stepping.keep(form, ask)
      : this.again(id => ask(lookAddress(this.model.name, id, this.kept(form)))), this.page);
    parts.push(this.keeping);
    this.settle(null);
    const folded = make("div", {class: "folded", id: newId("folded")}, ...parts);  // beside the name where there is room
    const unfold = button("Controls", () => unfold.setAttribute("aria-expanded", String(folded.classList.toggle("open"))),
      {class: "unfold", "aria-expanded": "false", "aria-controls": folded.id});
    this.tools.replaceChildren(unfold, folded);
  }

  modes() {
    const name = newId("mode"), group = make("div", {class: "choices", role: "radiogroup", "aria-label": "Show"});
    for (const [text, stepping] of [["Attention", false], ["Step by step", true]]) {
      const input = make("input", {type: "radio", name});
      input.checked = Boolean(this.state.steps) === stepping;
      input.addEventListener("change", () => {
        if (stepping) this.state.steps = [];
        else delete this.state.steps;
        this.changed(true);
        this.showMode();
        if (stepping) this.stepping.forward.focus();  // here the arrow keys would choose the other way to see it
      });
      group.append(make("label", {}, input, make("span", {}, text)));
    }
    return make("div", {class: "regard modes"}, group);
  }

  /** Leads to a place with weights that open, from a picture that is made of several looks. */
  layerButton() {
    const looks = this.model.sites.filter(one => one.kind === "attention"), usual = looks.find(one => one.name === this.model.alignment) ?? looks.at(-1);
    return usual ? button(`Show the ${usual.heads > 1 ? "heads" : "look"} of: ${siteTitle(usual.name, this.said)}`, () => {
      this.tools.querySelector("select").value = usual.name;
      this.chooseSite(usual.name);
    }) : "";
  }

  chooseSite(site) {
    this.state.site = site;
    this.state.view = this.state.view.pieces ? {pieces: true} : {};
    this.changed(true);
    this.showMode();
  }

  /** What a file holds: the same as is seen. Numbers are those of all heads, unless they are too many. */
  kept(form) {
    const {head, pieces, site, way = this.isWhole ? "map" : "usual", row} = this.state.view, numbers = form === "json" || form === "csv";
    const isOne = Number.isInteger(head) && this.model.sites.some(one => one.name === site);
    const one = isOne && (this.data?.side || !numbers) ? {site, head} : {site: this.state.site};
    return {...one, pieces, form, ...numbers && !this.isWhole ? {} : {way, row}, others: this.others.join(",")};
  }

  /** What a page without a server needs to show this again, and the other places where the model looked. */
  async entries() {
    const {model, task, answer, state} = this, base = `${modelPath(model.name)}/${task.task}`;
    const found = [[base, this.body(), {model: model.name, answers: [answer]}, 200]];
    const sites = new Set(["", state.site, EVERY, ...model.sites.length <= SITES ? model.sites.map(one => one.name) : []]);
    const look = async wanted => {
      const path = lookAddress(model.name, answer.id, {...wanted, packed: true});
      try {
        const data = await (this.others.length ? fetchLook(model.name, answer.id, {...wanted, others: this.others.join(",")}) : get(path));
        found.push([path, null, data, 200]);
        if (data.pieces === true && !wanted.pieces) await look({...wanted, pieces: true});
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        found.push([path, null, {error: {message: error.message, code: error.status}}, error.status]);
        if (error.status === TOO_MUCH && wanted.site && !wanted.side) await look({...wanted, side: SIDE});
      }
    };
    for (const site of sites) await look({site});
    if (this.isWhole) await look({site: state.site, way: "map"});
    if (this.data?.side) await look({site: state.view.site, head: state.view.head});
    found.push(...[...this.cells].map(([address, data]) => [address, null, data, 200]));
    return [...found, ...await this.stepping.entries()];
  }

  /** Nothing more is drawn. */
  close() {
    this.stop();
    this.looking = null;
    this.clearLook();
    clear(this.stepping.look);
    this.element.remove();
  }

  // -- asking

  stop() {
    this.running?.abort();
    this.running = null;
    this.stepping.close();
  }

  /** The server does not answer what is asked now: the answer of before is none to it. */
  lost() {
    if (!this.running || this.answer || this.isNew) return;
    this.out.replaceChildren();
    this.clearLook();
  }

  /** The person ends the answer: what was written of it stays, and says so. */
  end() {
    if (!this.running || this.answer) return this.stop();
    const part = this.isNew ? [...this.out.children] : [];
    this.forget(...part, part.length ? make("p", {class: "aside"}, "Stopped here.") : "");
  }

  /** There is no answer to what is asked now; `told` is shown in its place. */
  forget(...told) {
    this.stop();
    this.settle(null);
    this.out.replaceChildren(...told);
    this.clearLook();
  }

  /** The answer that is seen, whose files can be kept; null: there is none. */
  settle(answer) {
    this.answer = answer;
    this.sent = null;  // the usual picture, where it came with the answer
    this.others = [];  // answers whose vectors are seen below this one
    this.cells.clear();
    if (!answer) [this.data, this.looking, this.shownLook] = [null, null, null];
    this.keeping.hidden = !answer;
  }

  /** Ask, show the answer as it comes, then where the model looked. */
  ask() {
    return this.asking = this.askNow();
  }

  async askNow() {
    this.stop();
    this.settle(null);
    this.isNew = false;  // is the text that is seen of the answer that is awaited?
    const running = this.running = new AbortController();
    this.element.setAttribute("aria-busy", "true");
    this.out.setAttribute("aria-busy", "true");
    try {
      await (this.source ? this.follow(this.source) : this.askFor(running.signal));
      if (this.running === running) await this.showMode(true);
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error);
    } finally {
      if (this.running === running) this.running = null;
      if (!this.running) {  // none was asked meanwhile
        this.element.removeAttribute("aria-busy");
        this.out.removeAttribute("aria-busy");
      }
      this.drawn();
    }
  }

  fail(error) {
    if (!(error instanceof Failure)) throw error;
    this.forget(this.pairs ? make("p", {class: "error", role: "alert"}, error.message) : "");
    if (!this.pairs) this.failed(error.message);
  }

  /** The answer of another panel, once it is there. */
  async follow(panel) {
    await panel.asking;
    if (!panel.answer) throw new DOMException("there is no answer", "AbortError");
    this.settle(panel.answer);
    showAnswer(this.out, panel.answer, this.question().asked);
  }

  body() {
    const {values, options} = this.question(), known = new Set(this.task.options.map(one => one.name));
    return {inputs: values, options: Object.fromEntries(Object.entries(options).filter(([name]) => known.has(name)))};
  }

  async askFor(signal) {
    const {asked} = this.question(), path = `${modelPath(this.model.name)}/${this.task.task}`;
    for (let tries = 0; ; tries++) {
      let text = "", shown = null;
      try {
        for await (const [name, data] of events(path, {...this.body(), stream: true, look: !this.state.site}, signal)) {
          if (name === "answer") {
            this.settle(data);
            showAnswer(this.out, data, asked);
          } else if (name === "look") {
            this.sent = data;
          } else if (name === "piece") {
            if (!shown) {
              this.isNew = true;
              this.clearLook();
              this.out.replaceChildren(shown = textOf(this.task.continues ? asked : "", ""));
            }
            shown.lastChild.textContent = text += data.text;
          }
        }
        return;
      } catch (error) {
        if (!(error instanceof Failure) || error.status || tries) throw error;  // it broke off: the server went away
      }
    }
  }

  /** Does something with the answer's id; an answer that the server no longer has is asked for again. */
  async again(work) {
    try {
      return await work(this.answer.id);
    } catch (error) {
      if (!(error instanceof Failure) || error.status !== LOST) throw error;
      await (this.source ?? this).askFor();
      if (this.source) this.settle(this.source.answer);
      return work(this.answer.id);
    }
  }

  // -- what is seen

  clearLook(...children) {
    this.opened.close();
    clear(this.look, ...children);
  }

  async showMode(anew = false) {
    const stepping = Boolean(this.state.steps);
    this.look.parentElement.hidden = stepping;
    this.steps.hidden = !stepping;
    if (!this.answer) return;
    try {
      if (!stepping || !this.data) await this.showLook();
      if (stepping && this.state.steps) await this.stepping.begin(this.state.steps);
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error);
    }
    if (anew) this.changed(false);
    this.drawn();
  }

  /** How a weight came about; null: it opens by itself (`first`), and cannot. */
  async fetchCell(id, place, first) {
    const address = cellAddress(this.model.name, id, place), data = await get(first && !isKept ? `${address}&first=true` : address);
    if (data) this.cells.set(address, data);
    return data;
  }

  /** Whether weights can be opened: in a saved page, some that were open when it was saved. */
  get canOpen() {
    return !isKept || isHeld(cellsOf(this.model.name, this.answer.id));
  }

  async showLook() {
    const {site} = this.state, own = this.looking = {};  // what is fetched later takes its place
    const whole = this.isWhole ? {way: "map"} : {};
    const part = async (wanted = {}) => !site && this.sent && !Object.values(wanted).some(Boolean) ? this.sent
      : this.again(id => fetchLook(this.model.name, id, {site, ...whole, ...wanted}));
    this.look.setAttribute("aria-busy", "true");
    try {
      const found = await picture(this.model, site, part);
      if (this.looking !== own) return;
      [this.data, this.shownLook] = [found.data, null];
      this.seen = {site: found.site};
      this.opened.close();
      await draw(this.look, this.question().url ? {...found.data, title: "", caption: ""} : found.data, {  // a file's name, and the answer again
        open: !this.canOpen || this.isWhole ? null : place => this.opened.open({site: found.site === EVERY ? "" : found.site, ...place}),
        part: wanted => part({site: found.site, ...wanted}),
        pointed: this.pointed,
        looked: look => {
          this.shownLook = look;
          this.drawn();
        },
        languages: place => this.languagesAt(place || found.site),
        state: this.state.view,
        image: this.question().url,
        examples: () => this.examples(found.site),
        others: this.answer.vector && (() => this.otherVectors()),
        changed: view => {
          this.state.view = Object.fromEntries(Object.entries(view).filter(([, value]) => value !== null && value !== false));
          this.changed(false);
        },
      });
    } catch (error) {
      if (this.looking !== own) return;
      if (!(error instanceof Failure)) throw error;
      this.data = null;
      this.clearLook(make("p", {class: "aside"}, asSentence(error.message)));
    } finally {
      if (this.looking === own) this.look.removeAttribute("aria-busy");
      this.drawn();
    }
  }

  /** The languages of what is read and written, where a place looks from one to the other; "": they have no names. */
  languagesAt(site) {
    const {alignment} = this.model, kind = name => name.replace(/\d+/g, ""), isOneText = !this.task.steps || this.task.continues;
    return isOneText || kind(site || alignment) !== kind(alignment) ? [] : this.task.languages ?? ["", ""];
  }

  /** The task's own images with what is seen of each at a site: [{image, data}]. */
  async examples(site) {
    const {inputs: {schema}, task} = this.task, key = `${this.model.name}/${task}/${site}`;
    if (isKept || schema.format !== "byte") return [];
    const fetched = async () => {
      const {tasks} = await withImages(this.model), {inputs: {examples}} = tasks.find(one => one.task === task);
      if (examples.length < 2) return [];
      const {answers} = await post(`${modelPath(this.model.name)}/${task}`, {...this.body(), inputs: examples});
      const looks = answers.map(({id}) => fetchLook(this.model.name, id, {site}));
      return (await Promise.all(looks)).map((data, at) => ({image: examples[at], data}));
    };
    if (!this.known.has(key)) this.known.set(key, fetched());
    try {
      return await this.known.get(key);
    } catch (error) {
      this.known.delete(key);
      if (error instanceof Failure) return [];  // the view stands without them
      throw error;
    }
  }

  /** The vectors of the task's other examples, by their texts. */
  async otherVectors() {
    const {inputs: {examples}, task} = this.task, path = `${modelPath(this.model.name)}/${task}`, asked = JSON.stringify(this.body().inputs);
    const others = examples.filter(one => JSON.stringify([one]) !== asked);
    try {
      const {answer} = this, found = await Promise.all(others.map(one => post(path, {...this.body(), inputs: [one]})));
      if (answer === this.answer) this.others = found.flatMap(({answers}) => answers.map(one => one.id));
      return found.flatMap(({answers}) => answers.flatMap(vectorsOf));
    } catch (error) {
      if (error instanceof Failure) return [];  // the view stands without them
      throw error;
    }
  }

  stepQuestion() {
    const {site} = this.state, own = this.model.sites.find(one => one.name === site && one.kind === "attention");
    return {model: this.model.name, task: this.task.task, ...this.body(), site: own?.name, chosen: site, said: this.said, answer: this.answer,
      image: this.data?.image ?? this.question().url};
  }
}
