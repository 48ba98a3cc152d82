// A table that is wider than the screen scrolls; with this also by keyboard.
window.addEventListener("load", () => {
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0
  }
})
