// Pointing at a row of an attention map shades the column tokens by the weights of that row.

const HINT = "Point at a row to see what it looks at.";

/** `element` holds the SVG of a map; tokens and weights are read from it. */
export function showMap(element) {
  const svg = element.querySelector("svg");
  const rowLabels = [...svg.querySelectorAll(".rows text")];
  const question = make("div", "question"), tokens = make("div", "tokens"), look = make("div", "look");
  const top = Number(svg.querySelector(".cells").dataset.top);  // the weight of the darkest colour
  let shown;

  // All tokens stay in place whatever row is shown; otherwise the map would move under the pointer.
  tokens.append(...[...svg.querySelectorAll(".columns text")].map(tokenOf));
  tokens.classList.toggle("many", tokens.children.length > 60);
  look.append(question, tokens);
  element.prepend(look);

  function lookAt(row) {
    if (row === shown) return;
    shown = row;
    for (const old of svg.querySelectorAll(".on")) old.classList.remove("on");
    for (const token of tokens.children) token.removeAttribute("style");
    svg.classList.toggle("looking", row !== null);
    if (row === null) return question.replaceChildren(HINT);
    question.replaceChildren(tokenOf(rowLabels[row]), " looks at");
    for (const part of svg.querySelectorAll(`[data-row="${row}"]`)) part.classList.add("on");
    for (const cell of svg.querySelectorAll(`g[data-row="${row}"] rect[x]`)) {
      const token = tokens.children[Number(cell.getAttribute("x"))], title = cell.textContent;
      const level = Number(title.slice(title.lastIndexOf(":") + 1)) / top;
      token.style.background = cell.getAttribute("fill");
      token.style.color = level > 0.55 ? "#fff" : "";
    }
  }

  svg.addEventListener("pointerover", event => {
    const part = event.target.closest("[data-row]");
    lookAt(part ? part.dataset.row : null);
  });
  svg.addEventListener("pointerleave", () => lookAt(null));
  lookAt(null);
}

function make(kind, name) {
  const part = document.createElement(kind);
  part.className = name;
  return part;
}

// Tokens are only ever set as text, never as markup. The label is the last child; a tooltip may come before it.
function tokenOf(label) {
  const token = document.createElement("bdi");
  token.textContent = label.lastChild?.data ?? "";
  return token;
}
