// Before anything is drawn: the colours that were chosen last.
"use strict";
(function () {
  try {
    const chosen = localStorage.getItem("ottla-theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch (error) { /* no storage: the system's colours */ }
})();
