"use strict";
// Shows the videos whose names and facts have all words of a search.
const search = document.querySelector("input");
search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/);
  for (const entry of document.querySelectorAll("[data-text]")) {
    entry.hidden = !words.every((word) => entry.dataset.text.toLowerCase().includes(word));
  }
});
