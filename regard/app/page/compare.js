// Two panels compared: what is compared, what the answers differ in, one pointing for both, and the weights that differ.
import {percent} from "./answer.js";
import {Failure, get} from "./api.js";
import {marked} from "./changes.js";
import {make} from "./dom.js";
import {keepMenu} from "./keep.js";
import {clear, draw} from "./look.js";

const TABLES = new Set(["map", "heads", "shaded", "document"]);  // kinds of pictures that are one table of weights
const LONG = 2000;  // characters of an answer, above which differences are not marked

export class Comparison {
  /** `panels()`: the two, or one; `page()`: all, to be saved. */
  constructor(panels, page) {
    Object.assign(this, {panels, key: "", data: null, images: []});
    this.said = make("p", {});
    this.verdict = make("p", {class: "quiet", role: "status"});
    this.above = make("div", {class: "versus", hidden: true}, this.said, this.verdict);
    this.look = make("div", {class: "regard"});
    this.keeping = keepMenu((form, ask) => ask(this.address({form})), page);
    this.below = make("section", {class: "differs", "aria-label": "The difference", hidden: true},
      make("header", {class: "panel-head"}, make("h2", {}, "The difference"), this.keeping), this.look);
  }

  get isOn() {
    return this.panels().length > 1;
  }

  /** The parts of a panel that say what of it is compared; null: nothing that could be. */
  static sideOf({answer, data, model, state, seen}) {
    if (!answer || !data || state.steps || !TABLES.has(data.kind)) return null;
    const {site, head, pieces} = state.view, one = data.kind === "heads" ? {site, head} : {site: seen.site};
    if (data.kind === "heads" && head === undefined) return null;  // none is chosen yet
    return {model: model.name, answer: answer.id, ...one, pieces: pieces || undefined};
  }

  get wanted() {
    const sides = this.panels().map(panel => Comparison.sideOf(panel));
    const [first, second] = this.panels().map(panel => panel.data?.of === "gate");
    return sides.every(Boolean) && first === second ? sides : null;
  }

  address(more) {
    const query = new URLSearchParams(more);
    this.wanted?.forEach((side, at) => Object.entries(side).forEach(([name, value]) => {
      if (value !== undefined && value !== "") query.set(at ? `2.${name}` : name, value);
    }));
    return `api/difference?${query}`;
  }

  /** What is seen in a panel is another. */
  async refresh() {
    this.above.hidden = !this.isOn;
    if (this.isOn) this.tellAnswers();
    const key = this.isOn && this.wanted ? this.address({packed: true}) : "";
    if (key && key === this.key) return;
    this.key = key;
    if (!key) return this.drawImages();
    const data = await get(key).catch(error => {
      if (!(error instanceof Failure)) throw error;
      return null;  // too large, or on a page that was saved without it
    });
    if (this.key !== key) return;
    if (!data || data.empty) return this.hide();
    [this.data, this.images] = [data, []];
    this.below.hidden = this.keeping.hidden = false;
    await draw(this.look, {...data, title: ""}, {pointed: place => this.point(2, place)});
  }

  hide() {
    [this.data, this.images] = [null, []];
    this.below.hidden = true;
    clear(this.look);
  }

  /** Two looks over one image, as they are shown: their difference needs no server. */
  drawImages() {
    const panels = this.panels(), looks = panels.map(panel => panel.shownLook), urls = panels.map(panel => panel.question().url);
    if (looks.length < 2 || !looks.every(Boolean) || urls[0] !== urls[1] || panels.some(panel => panel.state.steps)) return this.hide();
    if (looks.every((look, at) => look.shares === this.images[at]?.shares)) return;
    const models = panels.map(panel => panel.model.name), parts = looks.map(look => (look.title ?? look.name).split(" · ")[0]);
    const names = [models, parts, ["the first", "the second"]].find(([one, other]) => one !== other);
    this.hide();
    this.images = looks;
    this.below.hidden = false;
    this.keeping.hidden = true;
    draw(this.look, {kind: "image_difference", looks, image: looks[0].url, names}, {pointed: place => this.point(2, place)});
  }

  /** What a page without a server needs of this. */
  get entries() {
    return this.data ? [[this.key, null, this.data, 200]] : [];
  }

  // -- answers

  tellAnswers() {
    const [first, second] = this.panels(), [one, other] = [first.answer, second.answer];
    this.said.textContent = second.pair ? second.pair.said(first, second) : "";
    this.verdict.textContent = "";
    if (!one || !other || one === other || first.running || second.running) return;
    if (typeof one.label === "string" && typeof other.label === "string") this.tellLabels(one, other);
    else if (typeof one.text === "string" && typeof other.text === "string" && !first.task.continues) this.tellTexts(one, other);
  }

  tellLabels(one, other) {
    const share = answer => answer.probabilities?.[answer.label], sure = answer => share(answer) === undefined ? "" : ` (${percent(share(answer))})`;
    this.verdict.textContent = one.label === other.label ? `Both say “${one.label}”${sure(one) && `:${sure(one)} and${sure(other)}`}.`
      : `The first says “${one.label}”${sure(one)}, the second “${other.label}”${sure(other)}.`;
  }

  tellTexts(one, other) {
    const same = one.text === other.text, short = one.text.length + other.text.length < LONG;
    this.verdict.textContent = same ? "Both answers are the same." : `The answers differ${short ? ": what only one of them has is underlined" : ""}.`;
    if (!short) return;
    this.panels().forEach((panel, at) => panel.out.querySelector(".written")?.replaceChildren(...marked(...at ? [other.text, one.text] : [one.text, other.text])));
  }

  // -- pointing

  /** Somebody points in a panel (0, 1) or at the difference (2); the same place is shown in the others. */
  point(from, place) {
    if (!this.isOn) return;
    const views = [...this.panels().map(panel => panel.look), this.look];
    const places = place && "row" in place ? this.placesOf(from, place) : [place, place, place];
    views.forEach((view, at) => { if (at !== from) view.shown?.point?.(places[at]); });
  }

  /** A row and a column of one table in all three. */
  placesOf(from, place) {
    if (!this.data) return [null, null, null];
    const among = (pairs, at) => at === null ? null : from === 2 ? at : pairs.findIndex(pair => pair[from] === at);
    const common = {row: among(this.data.row_places, place.row), column: among(this.data.column_places, place.column)};
    const inside = (pairs, at, side) => at === null ? null : pairs[at]?.[side] ?? null;
    const found = [0, 1].map(side => ({row: inside(this.data.row_places, common.row, side), column: inside(this.data.column_places, common.column, side)}));
    return [...found, common].map(one => one.row === null && one.column === null ? null : one);
  }
}
