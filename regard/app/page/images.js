// An image as input: dropped, picked, pasted, or one of the examples.
import {button, make} from "./dom.js";
import {TERMS} from "../views/said.js";

const LARGEST = 3 << 20, SIDE = 1600;  // a larger file is sent as a JPEG with at most so many pixels on a side

function readFile(file) {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => fail(new Error("This file cannot be read."));
    reader.readAsDataURL(file);
  });
}

async function imageUrl(file) {
  if (file.size <= LARGEST) return readFile(file);
  const bitmap = await createImageBitmap(file), scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = make("canvas", {width: Math.round(bitmap.width * scale), height: Math.round(bitmap.height * scale)});
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", .9);
}

/** A place for one image. `own.image` keeps one that the person gave, also for the next form. `changed()` is called when the
    person chose one; `failed(message)` when it cannot be read. */
export function imageInput(examples, own, changed, failed) {
  let state = {}, url = null, reading = null;
  const picked = make("input", {type: "file", accept: "image/*", "aria-label": "Choose an image"});
  const preview = make("img", {alt: "The image that is asked about", hidden: true});
  const hint = make("span", {class: "aside"}, make("b", {}, "Drop an image"), " here, paste one, or choose a file");
  const drop = make("label", {class: "drop"}, picked, preview, hint);

  function show(next, nextUrl) {
    [state, url, reading] = [next, nextUrl, null];
    preview.hidden = !url;
    if (url) preview.src = url;
    else preview.removeAttribute("src");
    drop.classList.toggle("filled", Boolean(url));
  }

  async function take(files) {
    const file = [...files].find(one => one.type.startsWith("image/")) ?? files[0];
    if (!file) return;
    const latest = reading = imageUrl(file);  // what is chosen meanwhile takes its place
    try {
      const found = await latest;
      if (reading !== latest) return;
      own.image = found;
      show({image: true}, found);
    } catch {
      if (reading === latest) failed("This file is not an image that the browser can read.");
      return;
    }
    changed();
  }

  picked.addEventListener("change", () => take(picked.files));
  for (const name of ["dragover", "dragenter"])
    drop.addEventListener(name, event => {
      event.preventDefault();
      drop.classList.add("over");
    });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", event => {
    event.preventDefault();
    drop.classList.remove("over");
    take(event.dataTransfer.files);
  });
  const paste = event => {
    if (event.clipboardData.files.length) take(event.clipboardData.files);
  };
  document.addEventListener("paste", paste);

  const tried = make("div", {class: "tried", role: "group", "aria-label": "Examples"});
  const addExamples = all => {
    examples = all;
    all.slice(tried.children.length).forEach(example => {
      const number = tried.children.length;
      tried.append(button(make("img", {src: example, alt: ""}), () => {
        show({example: number}, example);
        changed();
      }, {"aria-label": `Example ${number + 1}`, class: "tried-image"}));
    });
  };
  addExamples(examples);

  return {
    element: make("div", {class: "image-input"}, drop),
    tried: examples.length ? tried : "",
    get state() { return state; },
    get values() { return url ? [url] : []; },
    get url() { return url; },
    isMissing: () => !url,
    isExample: () => !state.image,
    addExamples,
    missing: "Choose an image first. An address cannot hold one: drop it here again.",
    set(next) {
      if ("example" in next && examples[next.example]) show(next, examples[next.example]);
      else if (next.image && own.image) show({image: true}, own.image);
      else show({}, null);
    },
    close() {
      reading = null;
      document.removeEventListener("paste", paste);
    },
  };
}

/** Examples of classes, each with its images: {class: [url, ...]}. */
export function episodeInput(name, help, changed, failed) {
  const rows = make("div", {class: "classes"}), add = button("Add a class", () => row(), {class: "plain"});
  const summary = make("summary", {}), fields = make("fieldset", {}, make("legend", {class: "unseen"}, name),
    make("p", {class: "aside"}, help), rows, add);
  const element = make("details", {class: "episode"}, summary, fields);

  /** What it holds, where it is folded. */
  function tell() {
    const found = [...rows.children].map(one => one.read()).filter(([, images]) => images.length);
    summary.replaceChildren(make("span", {title: TERMS[name] ?? help}, `${name}:`), ...found.map(([label, images]) => make("span", {}, make("bdi", {}, label), " ",
      make("img", {src: images[0], alt: ""}), images.length > 1 ? ` × ${images.length}` : "")),
    found.length ? "" : make("b", {}, "give images of each class"));
  }

  function changedRows() {
    tell();
    changed();
  }

  function row(label = `class ${rows.children.length + 1}`, urls = []) {
    const text = make("input", {type: "text", value: label, "aria-label": "Name of the class", onchange: changedRows});
    const shown = make("span", {class: "tried"}), images = [];
    const put = url => {
      images.push(url);
      shown.append(make("img", {src: url, alt: ""}));
    };
    urls.forEach(put);
    const picked = make("input", {type: "file", accept: "image/*", multiple: true, "aria-label": `Images of ${label}`});
    picked.addEventListener("change", async () => {
      try {
        for (const file of picked.files) put(await imageUrl(file));
      } catch {
        failed("One of these files is not an image that the browser can read.");
      }
      picked.value = "";
      changedRows();
    });
    const one = make("div", {class: "class-row"}, text, shown, make("label", {class: "file-button"}, "Add images", picked),
      button("Remove", () => {
        one.remove();
        changedRows();
      }, {class: "plain"}));
    one.read = () => [text.value, images];
    rows.append(one);
  }

  return {
    element,
    set(value) {
      rows.replaceChildren();
      for (const [label, urls] of Object.entries(value ?? {})) row(label, urls);
      while (rows.children.length < 2) row();
      tell();
      element.open = !value;  // there is something to give
    },
    get value() {
      const found = [...rows.children].map(one => one.read()).filter(([label, urls]) => label && urls.length);
      return found.length ? Object.fromEntries(found) : null;
    },
  };
}
