// The page: a question, and one or two models that answer it.
import {Failure, get, isKept, modelsAsked, whenLost, whenSignedOut, withImages} from "./api.js";
import {readAddress, writeAddress} from "./address.js";
import {Ask, alike, inputsOf} from "./ask.js";
import {modelList} from "./choose.js";
import {Comparison} from "./compare.js";
import {button, make} from "./dom.js";
import {shareButton} from "./keep.js";
import {viewOf} from "./look.js";
import {isAsked} from "./options.js";
import {pairsOf, valueOf} from "./pairs.js";
import {Panel} from "./panel.js";
import {askForToken} from "./sign_in.js";
import {projectorButton, themeButton} from "./theme.js";
import {tourButton} from "./tour.js";

const SOON = 100;  // milliseconds
const find = id => document.getElementById(id);

/** Whether a task can be asked with the form of another: an input that makes sense for both, and the examples that it needs. */
function fits(task, first) {
  const there = new Set(first.options.map(one => one.name));
  return alike(task, first) && task.options.filter(isAsked).every(one => there.has(one.name));
}

class Page {
  constructor(models) {
    this.all = models;
    this.models = models.filter(one => one.status !== "broken");
    this.panels = [];
    this.comparison = new Comparison(() => this.panels, () => this.whole);
    find("panels").before(this.comparison.above);
    find("panels").after(this.comparison.below);
    this.list = modelList(find("models"), models, name => this.chooseModel(name));
    this.ask = new Ask(find("ask"), {
      submit: () => this.submit(),
      stop: () => this.stop(),
      chosen: verb => this.chooseModel(this.panels[0].state.model, verb),
    });
    this.compare = button("Compare", () => this.toggleCompare(), {"aria-pressed": "false"});
    const warning = () => this.ask.hasOwnImages ? "Copied, but an address cannot hold your images." : "";
    find("actions").replaceChildren(this.compare, shareButton(warning, () => writeAddress(this.state, false)), tourButton(), projectorButton(() => this.panels.forEach(one => one.opened.fit())), themeButton());
    window.addEventListener("popstate", () => this.restore(readAddress()));
  }

  modelOf(name) {
    return this.models.find(one => one.name === name);
  }

  /** The model and task that a state names; the first that writes texts where it names none. */
  found({model, task} = {}) {
    const usual = this.models.find(one => one.tasks[0].steps && one.tasks[0].inputs.schema.format !== "byte");
    const chosen = this.modelOf(model) ?? usual ?? this.models[0];
    return [chosen, chosen.tasks.find(one => one.task === task) ?? chosen.tasks[0]];
  }

  /** Why a model that an address names cannot be shown; "": it can. */
  lacking({model} = {}) {
    if (!model || this.modelOf(model)) return "";
    return this.all.find(one => one.name === model)?.error ?? `This server has no model named “${model}”.`;
  }

  get question() {
    return {values: this.ask.input.values, options: this.ask.options.values, asked: this.ask.input.state.text ?? "", url: this.ask.input.url};
  }

  /** All that is seen, to be saved. */
  get whole() {
    return {panels: this.panels, state: this.state, entries: this.comparison.entries};
  }

  newPanel(own = {}) {
    const panel = new Panel({
      changed: push => {
        this.keep(push);
        this.comparison.refresh();
      },
      drawn: () => this.comparison.refresh(),
      failed: message => this.ask.fail(message),
      page: () => this.whole,
      pointed: place => this.comparison.point(this.panels.indexOf(panel), place),
      question: () => this.question,
      ...own,
    });
    this.panels.push(panel);
    find("panels").append(panel.element);
    find("panels").classList.toggle("two", this.panels.length > 1);
    this.compare.setAttribute("aria-pressed", String(this.panels.length > 1));
    return panel;
  }

  /** Shows something of the model that a state names, once the images of its examples are there, or the one that is
      wanted; if they are waited for, what is chosen meanwhile is shown instead. */
  async once(state, show, example = Infinity) {
    const latest = this.latest = {}, [model, task] = this.found(state);
    try {
      if (model.partial && example >= task.inputs.examples.length) await withImages(model);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (this.latest === latest) this.ask.fail(error.message);
      return;
    }
    if (this.latest === latest) show();
  }

  /** The other images of a model that is shown with one of them. */
  async addExamples(model) {
    try {
      await withImages(model);
    } catch (error) {
      if (error instanceof Failure) return;  // what is seen stands without them
      throw error;
    }
    if (model.tasks.includes(this.ask.task)) this.ask.addExamples();
  }

  // -- state

  get state() {
    return {input: this.ask.input.state, options: this.ask.options.state, panels: this.panels.map(one => one.state)};
  }

  /** What is only pointed at or stepped to is written a little later, as browsers allow few changes a second. */
  keep(push) {
    if (this.restoring) return;
    clearTimeout(this.keeping);
    if (push) writeAddress(this.state, true);
    else this.keeping = setTimeout(() => writeAddress(this.state, false), SOON);
  }

  /** Show what an address says. */
  restore(state) {
    this.once(state.panels[0], () => this.restoreNow(state), state.input.example ?? 0);
  }

  async restoreNow(state) {
    this.restoring = true;
    clearTimeout(this.keeping);
    this.panels.splice(0).forEach(one => one.close());
    const [first, second] = state.panels, [model, task] = this.found(first);
    this.newPanel().set(model, task, first);
    this.list.mark(model.name);
    this.ask.show(model, task, Object.keys(state.input).length ? state.input : {example: 0});
    if (state.options) this.ask.options.restore(state.options);
    const lacking = this.lacking(first) || this.lacking(second);
    if (second && !lacking) this.addSecond(second);
    this.restoring = false;
    if (lacking) this.ask.fail(lacking);
    else if (!this.ask.missing) await this.run();
    else if (state.options) this.ask.fail(this.ask.missing);
    if (model.partial) this.addExamples(model);
  }

  chooseModel(name, verb = "") {
    this.once({model: name}, () => this.chooseNow(name, verb));
  }

  chooseNow(name, verb) {
    const [model, task] = this.found({model: name, task: verb}), [first, second] = this.panels;
    this.stop();
    first.set(model, task);
    this.ask.show(model, task);
    this.list.mark(name);
    const pair = second && this.pairs.find(one => one.value === valueOf(second.state));
    if (pair) this.setSecond(second, second.state.within ? pair.state : second.state);  // other choices
    else if (second) this.removeSecond();
    this.keep(true);
    if (!this.ask.missing) this.run();
  }

  // -- asking

  submit() {
    this.ask.fail("");
    if (this.ask.missing) {
      this.panels.forEach(one => one.forget());
      this.ask.fail(this.ask.missing);
      return;
    }
    for (const panel of this.panels) {
      if (panel.state.steps) panel.state.steps = [];
      delete panel.state.view.row;
    }
    const [, second] = this.panels, {text} = this.ask.input.state;
    if (second?.input && text !== this.text) second.set(second.model, second.task, {...second.state, text});  // to be changed anew
    this.keep(true);
    this.run();
  }

  async run(panels = this.panels) {
    this.ask.fail("");
    this.text = this.ask.input.state.text;
    this.ask.busy(true);
    await Promise.all(panels.map(one => one.ask()));
    if (!this.panels.some(one => one.running)) this.ask.busy(false);
  }

  stop() {
    this.panels.forEach(one => one.end());
    if (this.ask.task) this.ask.busy(false);
  }

  // -- comparing

  /** What the first panel can be compared with; a saved page holds only what was seen of its models. */
  get pairs() {
    const [first, second] = this.panels, found = pairsOf(this.models, first, this.ask.input.state.text, task => fits(task, first.task));
    return isKept ? found.filter(({state: {within}}) => !within || within === second?.state.within) : found;
  }

  addSecond(state) {
    const panel = this.newPanel({
      pairs: () => this.pairs,
      choose: pair => {
        this.setSecond(panel, pair.state);
        this.keep(true);
        this.run([panel]);
      },
      retext: () => {
        this.keep(true);
        this.run([panel]);
      },
      question: () => panel.state.within === "word"
        ? {...this.question, values: inputsOf(panel.task, panel.state.text), asked: panel.state.text} : this.question,
    });
    this.setSecond(panel, state);
    this.panels[0].opened.close();  // there is less room
    return panel;
  }

  setSecond(panel, state) {
    const [model, task] = this.found(state);
    panel.set(model, task, state);
  }

  removeSecond() {
    const [second] = this.panels.splice(1);
    find("panels").classList.remove("two");
    this.compare.setAttribute("aria-pressed", "false");
    second.close();
    this.comparison.refresh();
  }

  toggleCompare() {
    const [first] = this.pairs;
    if (this.panels.length > 1) this.removeSecond();
    else if (!first) this.ask.fail("There is nothing to compare this with. Serve another run beside it.");
    else {
      const panel = this.addSecond(first.state);
      if (!this.ask.missing) this.run([panel]);
    }
    this.keep(true);
  }
}

async function start() {
  whenSignedOut(askForToken);
  let page = null;
  whenLost(lost => {
    find("notice").textContent = lost ? "The server does not answer. It is asked again …" : "";
    if (lost) page?.panels.forEach(one => one.lost());
  });
  find("skip").addEventListener("click", event => {
    event.preventDefault();  // the address stays that of what is seen
    find("ask").focus();
  });
  try {
    const {models} = await get(modelsAsked()), waiting = find("waiting");
    if (!models.some(one => one.status !== "broken")) {
      waiting.textContent = models.map(one => one.error).join(" ") || "This server has no models.";
      return;
    }
    waiting.remove();
    find("work").hidden = false;
    page = new Page(models);
    page.restore(readAddress());
    viewOf("heads").then(() => viewOf("cell")).catch(() => {});  // the views that the page begins without come while the model answers
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    find("waiting").textContent = error.message;
  }
}

start();
