"use strict";
// Search, sorting, and opening what a link points to. The page is complete without it: it only
// hides, orders and opens what is there, and writes plain text.
(() => {
  const byId = (id) => document.getElementById(id);
  for (const element of document.querySelectorAll(".controls")) element.hidden = false;

  // Sorting: the headings become buttons.
  const table = document.querySelector("table.problems");
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    const value = cell.dataset.value ?? cell.textContent.trim();
    return headings[column].classList.contains("num") ? Number(value) : value.toLowerCase();
  };
  const sortBy = (column) => {
    const heading = headings[column];
    const now = heading.getAttribute("aria-sort");
    // Numbers are first asked for from the top; ranks and texts from the start.
    const down = now ? now === "ascending" : column > 1;
    for (const other of headings) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keyed = [...body.rows].map((row) => [valueOf(row, column), row]);
    keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
    body.append(...keyed.map(([, row]) => row));
  };
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    button.addEventListener("click", () => sortBy(column));
    heading.replaceChildren(button);
  });

  // Search: every word must occur, in any order.
  const cases = [...document.querySelectorAll("details.case")];
  const rows = [...body.rows].map((row) => {
    const shown = row.dataset.case && byId(row.dataset.case);
    const where = row.querySelector(".where").textContent.toLowerCase();
    return { row, text: shown ? shown.dataset.search : where };
  });
  const find = () => {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const which = byId("which").value;
    const matches = (text) => words.every((word) => text.includes(word));
    let found = 0;
    for (const { row, text } of rows) {
      row.hidden = !(matches(text) && (which === "all" || row.dataset.chosen === which));
      found += row.hidden ? 0 : 1;
    }
    for (const element of cases) {
      element.hidden = which === "other" || !matches(element.dataset.search);
    }
    byId("nothing").hidden = cases.some((element) => !element.hidden);
    byId("found").textContent = `${found} of ${rows.length} problems`;
  };
  byId("search").addEventListener("input", find);
  byId("search").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    byId("search").value = "";
    find();
  });
  byId("which").addEventListener("change", find);
  find();

  const setAll = (open) => {
    for (const element of cases) if (!element.hidden) element.open = open;
  };
  byId("open").addEventListener("click", () => setAll(true));
  byId("close").addEventListener("click", () => setAll(false));

  // A link to a problem opens it and moves the focus there.
  const follow = () => {
    const target = byId(location.hash.slice(1));
    if (!target || !target.matches("details.case")) return;
    target.hidden = false;
    target.open = true;
    target.scrollIntoView();
    target.querySelector("summary").focus();
  };
  window.addEventListener("hashchange", follow);
  // The same link twice changes no hash.
  body.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#p']");
    if (link && link.hash === location.hash) setTimeout(follow);
  });
  follow();
})();
