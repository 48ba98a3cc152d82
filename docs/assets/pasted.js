// The theme's search takes a colon for the name of a field, and a dash for "not": a pasted message would find nothing.
// What counts in a message are its words. And it waits for a key, which a mouse or a telephone does not have.
document.addEventListener("input", (event) => {
  const field = event.target
  if (!field.matches("[data-md-component=search-query]")) return
  const words = field.value.replace(/[^\p{L}\p{N}]+/gu, " ")
  if (words !== field.value) field.value = words
  field.dispatchEvent(new Event("keyup"))
}, true)
