// The theme searches in a worker, and browsers start no worker on a page that was opened from disk. There its script
// runs in a hidden frame instead; messages go to and fro as with a worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      this.loaded = new Promise(done => this.frame.addEventListener("load", () => this.start(url, done), {once: true}));
      document.documentElement.append(this.frame);
    }

    start(url, done) {
      const inside = this.frame.contentWindow;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      const script = inside.document.createElement("script");
      script.onload = done;
      script.src = url;
      inside.document.head.append(script);
    }

    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
