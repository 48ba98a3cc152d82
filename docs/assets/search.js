// A message that is pasted into the search consists of words. The theme's search would take a dash for "not", and each
// letter for the beginning of many words; so what is no word, is short, or is a number goes. So do the lines of a
// traceback that say where in your files it was.
const PLACE = /File "[^"]*", line \d+, in \S+/g
const NAME = /<[^<>]*>/g // of a class or a file: somebody's own
const NO_WORD = /[^\p{L}\p{N}]+/gu
const A_MESSAGE = 4 // words
const SHORT = new Set(["bus"])

document.querySelector("[data-md-component=search]").setAttribute("aria-label", "Search")

function keepWords(field, typed) {
  const all = field.value.replace(PLACE, " ").replace(NAME, " ").replace(NO_WORD, " ").split(" ")
  const words = typed || all.length < A_MESSAGE ? all : all.filter((word) => (word.length > 3 || SHORT.has(word.toLowerCase())) && !/\d/.test(word))
  const kept = words.join(" ")
  if (kept !== field.value) field.value = kept
  // The theme waits for a key, which a mouse or a telephone does not have.
  field.dispatchEvent(new Event("keyup"))
}

document.addEventListener("input", (event) => {
  if (!event.target.matches("[data-md-component=search-query]")) return
  keepWords(event.target, event.inputType === "insertText" && event.data?.length === 1)
}, true)

// A link with ?q=...: the theme has put the words into the field, and nobody has typed them.
if (new URLSearchParams(location.search).has("q")) {
  keepWords(document.querySelector("[data-md-component=search-query]"), false)
}
