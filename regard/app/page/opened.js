// A weight that was opened, beside the picture: how it came about.
import {Failure, modelPath} from "./api.js";
import {asSentence, make} from "./dom.js";
import {viewOf} from "./look.js";

const WIDE = 1200;  // pixels of a window in which the first weight opens by itself

/** Whether a weight that nobody asked for leaves the picture enough room; for a projector all is larger. */
function isWide() {
  return innerWidth / (Number(getComputedStyle(document.getElementById("main")).zoom) || 1) >= WIDE;
}

export class Opened {
  /** `fetchCell(place, first)` asks for what a weight was made of; `hasRoom()`: whether there is room for one that nobody asked for;
      `mark(place)`: which one is opened, null: none; `instead()`: an element with what can be opened where this weight cannot. */
  constructor(fetchCell, {hasRoom, mark, instead}) {
    Object.assign(this, {fetchCell, hasRoom, mark, instead});
    this.element = make("aside", {class: "regard cell", "aria-label": "How this weight came about", hidden: true});
    this.shown = this.opening = null;
    this.isFirst = false;  // it opened by itself
  }

  /** `place`: the table, row and column of a weight, as a view names them; a gate comes with its number. `first`: it was
      not asked for. */
  async open(place) {
    const {first = false, ...wanted} = place, own = this.opening = {};  // what is opened later takes its place
    const hasRoom = () => !first || (isWide() && this.hasRoom());
    if (!hasRoom()) return;
    try {
      const [view, data] = await Promise.all([viewOf("cell"), "gate" in wanted ? null : this.fetchCell(wanted, first)]);
      if (this.opening !== own || !hasRoom() || !(data || "gate" in wanted)) return;
      this.shown?.close();
      this.isFirst = first;
      this.element.classList.toggle("unasked", first);
      this.element.hidden = false;
      this.mark(wanted);
      const close = () => this.close();
      if (data) this.shown = view.showCell(this.element, data, {close, choose: of => this.open({...wanted, of})});
      else this.shown = view.showGate(this.element, {gate: wanted.gate, row: wanted.names[0], column: wanted.names[1], from: wanted.from}, {close});
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (this.opening !== own) return;
      this.close();
      if (first) return;
      this.element.hidden = false;
      this.element.replaceChildren(make("p", {class: "aside", role: "status"}, asSentence(error.message)), this.instead(error));
    }
    if (!first && this.opening === own) this.element.scrollIntoView({block: "nearest"});
  }

  /** The picture has another room now. */
  fit() {
    if (this.isFirst && !isWide()) this.close();
  }

  close() {
    this.shown?.close();
    this.shown = this.opening = null;
    this.mark(null);
    this.element.hidden = true;
    this.element.replaceChildren();
  }
}

/** The address of the weights of an answer, before what says which. */
export const cellsOf = (model, id) => `${modelPath(model)}/answers/${encodeURIComponent(id)}/cell`;

export function cellAddress(model, id, place) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(place))
    if (value !== null && value !== undefined && value !== "" && value !== false) query.set(name, value);
  return `${cellsOf(model, id)}?${query}`;
}
