// Where a model looked for an answer: fetched from the server, drawn by the view that is named as the picture's kind.
import {Failure, get, loaded, modelPath} from "./api.js";

export const SIDE = 32;  // rows and columns of each head in an overview
export const TOO_MUCH = 413;
const views = new Map();
export const EVERY = "*";  // all heads of all sites

/** The view of a kind of picture: loaded once. */
export function viewOf(kind) {
  if (!views.has(kind)) {
    const part = tries => import(`../views/${kind}.js`);
    views.set(kind, loaded(part).catch(error => {
      views.delete(kind);
      throw error;
    }));
  }
  return views.get(kind);
}

/** Draws data into an element; the view that was there is closed. What is drawn or cleared later takes its place. */
export async function draw(element, data, host = {}) {
  element.awaited = data;
  const {show} = await viewOf(data.kind);
  if (element.awaited !== data || !element.isConnected) return;  // its panel may be closed
  element.shown?.close();
  element.className = `regard regard-${data.kind}`;
  element.shown = show(element, data, {level: 3, ...host});
}

export function clear(element, ...children) {
  element.shown?.close();
  element.shown = element.awaited = null;
  element.className = "regard";
  element.replaceChildren(...children);
}

/** The address of a part of an answer's attention. */
export function lookAddress(model, id, wanted) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(wanted))
    if (value !== null && value !== undefined && value !== "" && value !== false) query.set(name, value);
  return `${modelPath(model)}/answers/${encodeURIComponent(id)}/attention?${query}`;
}

/** The picture of a site; where that is too much, an overview of it, and of all sites that of the usual one.
    `fetchPart(wanted)` asks for a part. */
export async function picture(model, site, fetchPart) {
  const usual = model.alignment || model.sites.find(one => one.kind === "attention")?.name;
  const tries = [{site}, {site, side: SIDE}, ...usual ? [{site: usual, side: SIDE}] : []];
  for (const [number, wanted] of tries.entries()) {
    if (wanted.side && !wanted.site) continue;
    try {
      return {data: await fetchPart(wanted), site: wanted.site};
    } catch (error) {
      if (!(error instanceof Failure) || error.status !== TOO_MUCH || number === tries.length - 1) throw error;
    }
  }
  throw new Failure("There is nothing to see.");
}

export function fetchLook(model, id, wanted, signal) {
  return get(lookAddress(model, id, {...wanted, packed: true}), signal);
}
