"use strict";

// A page that nobody sees asks for nothing; and what a person has selected is not taken away.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden) event.preventDefault();
  const selection = document.getSelection();
  if (selection && !selection.isCollapsed && event.target.contains(selection.anchorNode)) event.preventDefault();
});

// Morphing keeps what is open and what has the focus; charts draw themselves into elements that the server sends empty.
document.addEventListener("htmx:load", () => drawCharts());
addEventListener("DOMContentLoaded", () => {
  if (window.Idiomorph) {
    Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
      !(name === "open" && node.tagName === "DETAILS");
    Idiomorph.defaults.callbacks.beforeNodeRemoved = (node) => !(node.parentElement && node.parentElement.closest && node.parentElement.closest(".chart"));
  }
  drawCharts();
  const form = document.getElementById("browse");
  if (form) watchBrowseForm(form);
  const tail = document.getElementById("tail");
  if (tail) tail.addEventListener("click", () => toggleTail(tail, form));
  const theme = document.getElementById("theme");
  if (theme) theme.addEventListener("click", changeTheme);
});
document.addEventListener("htmx:afterSettle", drawCharts);

function changeTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("ottla-theme", root.dataset.theme); } catch (error) { /* for this page only */ }
  for (const place of document.querySelectorAll(".chart")) { if (place.plot) { place.plot.destroy(); place.plot = null; } }
  drawCharts();
}

function drawCharts() {
  if (!window.uPlot) return;
  for (const place of document.querySelectorAll(".chart")) {
    const data = JSON.parse(place.dataset.chart);
    if (place.plot) {
      if (place.drawn !== place.dataset.chart) place.plot.setData(data);
      place.drawn = place.dataset.chart;
      continue;
    }
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--quiet").trim();
    const line = style.getPropertyValue("--line").trim();
    const accent = style.getPropertyValue("--accent").trim();
    const font = "12px Inter, system-ui, sans-serif";
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font };
    const options = {
      width: place.clientWidth, height: 190, legend: { live: true }, cursor: { y: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { y: { range: (plot, low, high) => [0, Math.max(1, high * 1.1)] } },
      series: [{ label: "Time", value: "{HH}:{mm}:{ss}" }, { label: place.dataset.label, stroke: accent, width: 2, fill: accent + "22", points: { show: data[0].length < 3 } }],
      axes: [{ ...axis, values: [
        [86400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1],
        [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
        [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
      ] }, { ...axis, size: 64, values: (plot, ticks) => ticks.map((tick) => tick.toLocaleString("en")) }],
    };
    place.plot = new uPlot(options, data, place);
    place.drawn = place.dataset.chart;
    new ResizeObserver(() => place.plot && place.clientWidth && place.plot.setSize({ width: place.clientWidth, height: 190 })).observe(place);
  }
}

function watchBrowseForm(form) {
  const update = () => {
    for (const label of form.querySelectorAll("[data-when]")) label.hidden = label.dataset.when !== form.elements.from.value;
  };
  form.elements.from.addEventListener("change", update);
  update();
}

const ROWS_MAX = 300;
let source = null;

function toggleTail(button, form) {
  const status = document.getElementById("tail-status");
  if (source) {
    source.close();
    source = null;
    button.setAttribute("aria-pressed", "false");
    button.textContent = "Live tail";
    status.textContent = "The live tail has stopped.";
    return;
  }
  const wanted = new URLSearchParams();
  for (const name of ["partition", "key", "contains", "where", "as", "committed"]) {
    const field = form.elements[name];
    if (field && field.value && (field.type !== "checkbox" || field.checked)) wanted.set(name, field.value);
  }
  const rows = document.getElementById("messages");
  source = new EventSource(button.dataset.address + "?" + wanted);
  button.setAttribute("aria-pressed", "true");
  button.textContent = "Stop";
  status.hidden = false;
  status.textContent = "Connecting…";
  source.addEventListener("open", () => { status.textContent = "New messages appear on top as they are written."; });
  source.addEventListener("messages", (event) => {
    const scratch = document.createElement("template");
    scratch.innerHTML = event.data;
    for (const row of scratch.content.querySelectorAll("tr")) row.classList.add("fresh");
    rows.prepend(scratch.content);
    while (rows.children.length > ROWS_MAX) rows.lastElementChild.remove();
  });
  source.addEventListener("problem", (event) => {
    status.textContent = event.data;
    source.close();
    source = null;
    button.setAttribute("aria-pressed", "false");
    button.textContent = "Live tail";
  });
  source.addEventListener("error", () => { if (source) status.textContent = "The connection was lost; trying again…"; });
}
