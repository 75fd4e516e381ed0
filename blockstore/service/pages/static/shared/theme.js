// Dark and light: the system's theme until one is chosen, then the chosen one, in this browser.
// Loaded in the head and not deferred, so that the first paint has its colours.
(() => {
  const KEY = "blockstore.theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const chosen = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a browser without storage for the page
    }
  };

  const apply = () => {
    const wanted = chosen();
    document.documentElement.dataset.theme = wanted === "dark" || wanted === "light" ? wanted : dark.matches ? "dark" : "light";
    document.dispatchEvent(new Event("themechange"));
  };

  const choose = (theme) => {
    try {
      if (theme === "system") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, theme);
    } catch {
      document.documentElement.dataset.theme = theme;
    }
    apply();
  };

  const wire = () => {
    for (const control of document.querySelectorAll("select[data-theme-choice]")) {
      control.value = chosen() ?? "system";
      control.addEventListener("change", () => choose(control.value));
    }
  };

  dark.addEventListener("change", apply);
  addEventListener("storage", (event) => event.key === KEY && apply());
  apply();
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", wire);
  else wire();
})();
