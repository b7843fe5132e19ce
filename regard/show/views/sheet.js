// Typing shows only the captions that have the text; a grade of which none is left is not shown.

/** `element` holds sections of cards, each with a caption. */
export function showSheet(element) {
  const sections = [...element.querySelectorAll("section")];
  const label = document.createElement("label"), input = document.createElement("input");
  input.type = "search";
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const section of sections) {
      const cards = [...section.querySelectorAll(".card")];
      for (const card of cards)
        card.hidden = !card.querySelector(".caption").textContent.toLowerCase().includes(wanted);
      section.hidden = cards.every(card => card.hidden);
    }
  });
  label.append("captions with ", input);
  sections[0].before(label);
}
