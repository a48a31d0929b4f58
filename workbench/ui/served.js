// At the head of the app's page. What Streamlit's own script leaves to be wished of steps, links and themes:
(() => {
  const root = window.__streamlit?.BACKEND_BASE_URL ?? location.origin + location.pathname;

  // It adds a step to those that lead back for each address that a page writes, and so two where a page was only turned
  // to and fills in what it shows. Here a step is what the viewer did; what follows by itself belongs to it.
  let touched = false;
  const push = history.pushState;
  for (const kind of ["pointerdown", "click", "keydown"]) {
    addEventListener(kind, () => { touched = true; }, true);
  }
  addEventListener("popstate", () => { touched = false; });
  history.pushState = function (...entry) {
    const step = touched ? push : history.replaceState;
    touched = false;
    return step.apply(this, entry);
  };

  // It takes a click on a link for itself also where a key asks for another tab or window.
  addEventListener("click", (event) => {
    if ((event.ctrlKey || event.metaKey || event.shiftKey) && event.target.closest?.("a[href]")) {
      event.stopPropagation();
    }
  }, true);

  // It writes links to the app's first page as if they led to the page that they stand on.
  for (const kind of ["pointerover", "pointerdown", "focusin"]) {
    addEventListener(kind, (event) => {
      const link = event.target.closest?.('a[href^="?"], a[href=""]');
      if (link) link.href = root + link.getAttribute("href");
    }, true);
  }

  // It colours its own parts anew when another theme is chosen. Pictures have the colours of the theme that the page ran
  // in: a step to where one is runs it again.
  const run = () => setTimeout(() => dispatchEvent(new PopStateEvent("popstate")), 200);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", run);
  addEventListener("click", (event) => {
    if (event.target.closest?.('[data-testid^="stMainMenuItem-theme"]')) run();
  }, true);
})();
