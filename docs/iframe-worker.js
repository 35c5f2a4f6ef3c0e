// The site's search runs in a worker. Browsers refuse workers to pages that are opened from a file; there a hidden frame
// takes the worker's place. mkdocs.yml names this file, else the plugin `offline` would load one from another host.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.loaded = new Promise((resolve) => {
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.src = url;
          script.addEventListener("load", () => resolve(inside));
          inside.document.head.append(script);
        }, { once: true });
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.loaded.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
