// A browser starts no worker for a page that it opened from disk, and the theme's search lives in one. Here a hidden
// frame does its work. The theme would fetch such a script from a public host; this site fetches nothing.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    frame.title = "search"
    document.body.append(frame)
    this.inside = frame.contentWindow
    this.inside.document.open()
    this.inside.document.write("<!doctype html><title>search</title><body></body>")
    this.inside.document.close()
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
    const script = this.inside.document.createElement("script")
    script.src = new URL(url, location.href)
    this.ready = new Promise((loaded) => { script.onload = loaded })
    this.inside.document.body.append(script)
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })))
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker
  window.Worker = IFrameWorker
}
