"use strict";
// The list of all problems on the left, one of them on the right: drawn when it is looked at, from the
// compressed pieces in the page. Text becomes nodes by text.js alone.
(async () => {
  const byId = (id) => document.getElementById(id);
  const { element: make } = textView;
  const PER_PIECE = 48, ROW = 68, MOST_NAMES = 500;
  const SHAPES = ["●", "■", "▲", "◆"];
  const d3 = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
  const thousandths = (value) => d3(value == null ? null : value / 1000);
  const count = (value) => value.toLocaleString("en");
  const { chosenBy, word } = byId("panes").dataset;

  const unpack = async (id) => {
    const text = byId(id).textContent;
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  const problems = await unpack("index");
  const pieces = new Map();
  const piece = (number) => {
    if (!pieces.has(number)) pieces.set(number, unpack(`piece${number}`));
    return pieces.get(number);
  };
  const chosenOnes = problems.filter((one) => one.rank !== null);
  chosenOnes.forEach((one, place) => (one.place = place));
  problems.forEach((one, number) => {
    one.number = number;
    one.haystack = `${one.statement} ${one.where} ${one.subject ?? ""} ${(one.names ?? []).join(" ")}`.toLowerCase();
  });

  // --- the list: only the rows in sight are in the page ---
  const list = byId("list"), rows = byId("rows");
  let shown = problems, current = null;
  const draw = () => {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 9);
    rows.style.height = `${shown.length * ROW}px`;
    rows.replaceChildren(...shown.slice(first, last).map((one, at) => entry(one, first + at)));
    const active = current && rows.querySelector(`#row${current.number}`);
    if (active) list.setAttribute("aria-activedescendant", active.id);
    else list.removeAttribute("aria-activedescendant");
  };
  const entry = (one, at) => {
    const head = make("span", "head");
    head.append(one.rank === null ? `not ${word}` : `#${one.rank + 1}`, make("b", "", d3(one.score)));
    if (one.subject) head.append(make("span", "", one.subject));
    if (one.strategies !== null) head.append(make("span", "", `${one.strategies.toFixed(1)} strategies`));
    if (one.wrong) head.append(make("span", "bad", `${one.wrong} wrong`));
    const place = { "aria-setsize": shown.length, "aria-posinset": at + 1 };
    const named = { class: `entry${one.rank === null ? " other" : ""}`, id: `row${one.number}` };
    const attributes = { ...named, ...place, role: "option", "aria-selected": one === current };
    const statement = textView.line(make("span", "statement"), one.statement || one.where);
    const made = make("div", attributes, head, statement);
    made.style.top = `${at * ROW}px`;
    made.addEventListener("click", () => open(one));
    return made;
  };
  list.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(list);

  // --- filters and search ---
  const times = new Map();
  for (const name of problems.flatMap((one) => one.names ?? [])) times.set(name, (times.get(name) ?? 0) + 1);
  const named = [...times].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, MOST_NAMES);
  for (const [name, count] of named) byId("strategy").append(new Option(`${name} (${count})`, name));
  byId("strategy").hidden = named.length < 2;
  let searchable = false;
  const find = () => {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const which = byId("which").value, strategy = byId("strategy").value;
    const kept = problems.filter(
      (one) =>
        (which === "all" || (which === "chosen") === (one.rank !== null)) &&
        (!strategy || one.names?.includes(strategy)) &&
        words.every((word) => one.haystack.includes(word)),
    );
    const by = byId("order").value; // the list comes by rank
    shown = by === "rank" ? kept : kept.sort((a, b) => (b[by] ?? -1) - (a[by] ?? -1));
    byId("found").textContent =
      `${count(shown.length)} of ${count(problems.length)} problems` +
      (searchable || !words.length ? "" : "; still unpacking texts");
    list.scrollTop = 0;
    draw();
  };
  for (const id of ["search", "which", "strategy", "order"]) byId(id).addEventListener("input", find);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());

  // --- marks: kept in this browser until they are saved ---
  const storeName = `rpd-marks-${chosenOnes.map((one) => one.key.slice(0, 4)).join("").slice(0, 64)}`;
  const marks = new Map();
  const stored = (action) => {
    try {
      return action();
    } catch (error) {
      if (!(error instanceof DOMException || error instanceof SyntaxError)) throw error; // a private window keeps nothing
    }
  };
  for (const [key, value] of stored(() => JSON.parse(localStorage.getItem(storeName))) ?? []) marks.set(key, value);
  const marked = () => {
    byId("save").hidden = marks.size === 0;
    byId("marked").textContent = marks.size ? `${count(marks.size)} marked` : "";
    stored(() => localStorage.setItem(storeName, JSON.stringify([...marks])));
  };
  byId("save").addEventListener("click", () => {
    const decisions = [...marks].sort().map(([name, decision]) => {
      const [problem, solution] = name.split(" ");
      return { problem, solution: Number(solution), decision };
    });
    const text = `${JSON.stringify({ format: 1, decisions }, null, 1)}\n`;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = "decisions.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });

  // --- the detail ---
  const button = (attributes, text, action) => {
    const made = make("button", { type: "button", ...attributes }, text);
    made.addEventListener("click", action);
    return made;
  };
  const lazily = (title, fill) => {
    const details = make("details", "", make("summary", "", title));
    details.addEventListener("toggle", () => details.append(fill()), { once: true });
    return details;
  };
  const nameOf = (record, index) => {
    const place = record.selected.indexOf(index), strategy = record.solutions[index].beside.strategy;
    const made = make("span", "name", `Solution ${index}${strategy ? `: ${strategy}` : ""}`);
    if (place >= 0) made.prepend(make("span", `swatch s${place % 6}`, SHAPES[place % 4]), " ");
    return made;
  };
  const body = (solution) => {
    const made = textView.whole(make("div", "fulltext model"), solution.text);
    if (!solution.omitted) return made;
    made.append(make("p", "omitted", `${count(solution.omitted)} characters are left out here.`));
    return textView.whole(made, solution.tail);
  };
  const stepList = (solution) => {
    const made = make("ol", "steps model");
    for (const step of solution.steps) made.append(textView.line(make("li", ""), step));
    return made;
  };
  const keepOrReject = (one, index) => {
    const buttons = make("span", "marks"), name = `${one.key} ${index}`;
    const paint = () => {
      for (const child of buttons.children) child.setAttribute("aria-pressed", child.dataset.decision === marks.get(name));
    };
    for (const [decision, text] of [["keep", "Keep"], ["reject", "Reject"]]) {
      const named = { "data-decision": decision, "aria-label": `${decision} solution ${index}` };
      buttons.append(button(named, text, () => {
        if (marks.get(name) === decision) marks.delete(name);
        else marks.set(name, decision);
        marked();
        paint();
      }));
    }
    paint();
    return buttons;
  };
  const facts = (record, index) => {
    const { tokens, beside } = record.solutions[index];
    const others = Object.entries(beside).filter(([name]) => name !== "strategy"); // shown above
    const parts = others.map(([name, value]) => `${name}: ${value}`);
    return make("p", "facts", [`${count(tokens)} tokens`, ...parts].join(" · "));
  };
  const distancesTo = (record, index) => {
    const matrix = record.distances ?? record.rpd;
    const parts = record.selected
      .filter((other) => other !== index && matrix?.[index][other] != null)
      .map((other) => `${thousandths(matrix[index][other])} to solution ${other}`);
    return parts.length ? `Distance ${parts.join(", ")}.` : "It was not compared.";
  };
  const card = (one, record, index) => {
    const place = record.selected.indexOf(index), solution = record.solutions[index];
    const head = make("h4", "", nameOf(record, index), keepOrReject(one, index));
    if (place >= 0) {
      const text = lazily("Whole text", () => body(solution));
      return make("article", `solution s${place % 6}`, head, facts(record, index), stepList(solution), text);
    }
    const why = solution.dropped
      ? `left out: ${solution.dropped}${solution.detail ? ` (${solution.detail})` : ""}`
      : `compared, not ${word}: others are further apart`;
    const said = make("p", "facts", `${why}. ${distancesTo(record, index)}`);
    const text = lazily("Steps and text", () => make("div", "", stepList(solution), body(solution)));
    return make("article", "solution plain", head, said, facts(record, index), text);
  };
  const matrixTable = (record, name, matrix) => {
    const known = matrix.map((_, index) => index).filter((index) => matrix[index][index] !== null);
    const largest = Math.max(1, ...matrix.flat().map((value) => value ?? 0));
    const chosen = (...indices) => indices.every((index) => record.selected.includes(index));
    const heading = (index) => make("th", chosen(index) ? "pick" : "", String(index));
    const cell = (i, j) => {
      if (i === j) return make("td", "own", "·");
      const level = Math.round((10 * matrix[i][j]) / largest);
      return make("td", `q${level}${chosen(i, j) ? " pick" : ""}`, (matrix[i][j] / 1000).toFixed(2));
    };
    const table = make("table", "heat");
    table.createTHead().insertRow().append(make("td", ""), ...known.map(heading));
    const body = table.createTBody();
    for (const i of known) body.insertRow().append(heading(i), ...known.map((j) => cell(i, j)));
    const region = { class: "scroll", tabindex: 0, role: "region", "aria-label": `${name} of all pairs` };
    const box = make("div", region, table);
    const caption = make("figcaption", "", `Outlined: pairs of ${word} solutions.`);
    return make("figure", "", make("h3", "", `${name} of all pairs`), box, caption);
  };
  const pairList = (record) => {
    const [name, matrix] = record.distances ? [chosenBy, record.distances] : ["RPD", record.rpd];
    const made = make("div", "");
    for (const { first, second, says } of record.pairs) {
      const distance = make("b", "", `${name} ${thousandths(matrix?.[first][second])}`);
      const line = make("p", "pair", nameOf(record, first), " and ", nameOf(record, second), ": ", distance);
      if (says) line.append(` (${says})`);
      made.append(line);
    }
    return made;
  };
  const show = async (one) => {
    const target = byId("problem");
    const head = make("p", "facts", one.rank === null ? `not ${word}` : `rank ${one.rank + 1}`);
    head.append(` · score ${d3(one.score)} · ${one.where}`);
    if (one.usable !== undefined) head.append(` · ${one.usable} of ${one.solutions} solutions compared`);
    if (one.rank === null) {
      const statement = textView.line(make("div", "asked model"), one.statement || "The text of this problem is not in the folder.");
      target.replaceChildren(head, statement, make("h3", "", "Why not this one?"), make("p", "", one.why));
      return;
    }
    const record = (await piece(Math.floor(one.place / PER_PIECE)))[one.place % PER_PIECE];
    if (current !== one) return; // another one was opened meanwhile
    const cards = (name, indices) => make("div", name, ...indices.map((index) => card(one, record, index)));
    const asked = textView.whole(make("div", "asked model"), record.problem);
    const parts = [head, asked, make("h3", "", `${word[0].toUpperCase()}${word.slice(1)} solutions`), cards("solutions", record.selected)];
    if (record.parting) parts.push(make("h3", "", "Where the runs part"), make("p", "model", record.parting));
    if (record.pairs.length) parts.push(make("h3", "", "How far apart they are"), pairList(record));
    const maps = make("div", "columns");
    if (record.distances) maps.append(matrixTable(record, `${chosenBy}, the distance that chose,`, record.distances));
    if (record.rpd) maps.append(matrixTable(record, "RPD", record.rpd));
    parts.push(maps);
    const others = [...record.solutions.keys()].filter((index) => !record.selected.includes(index));
    if (others.length) parts.push(make("h3", "", "Why not these?"), cards("others", others));
    const carried = Object.entries(record.carried).flatMap(([name, value]) => [make("dt", "", name), make("dd", "model", value)]);
    if (carried.length) parts.push(lazily("Carried columns", () => make("dl", "carried", ...carried)));
    target.replaceChildren(...parts);
  };
  // In a notebook the page is about:srcdoc, which has no address to change.
  const address = (hash) => location.protocol === "about:" || history.replaceState(null, "", hash);
  const open = async (one, { focus = false } = {}) => {
    current = one;
    document.body.classList.add("open");
    byId("overview").hidden = true;
    byId("problem").hidden = false;
    if (one.rank !== null) address(`#p${one.rank + 1}`);
    draw();
    await show(one);
    byId("detail").scrollTop = 0;
    if (focus) byId("detail").focus();
  };
  const overview = () => {
    current = null;
    byId("overview").hidden = false;
    byId("problem").hidden = true;
    address("#");
    draw();
  };
  const move = (by) => {
    const at = current ? shown.indexOf(current) : by > 0 ? -1 : shown.length;
    const place = Math.min(shown.length - 1, Math.max(0, at + by)), next = shown[place];
    if (!next) return;
    const top = place * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    open(next);
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape" && event.target.id === "search") {
      byId("search").value = "";
      find();
      list.focus();
    } else if (event.key === "Enter" && event.target.id === "search") move(1), list.focus();
    else if (typing) return;
    else if (event.key === "j" || (event.key === "ArrowDown" && event.target === list)) move(1);
    else if (event.key === "k" || (event.key === "ArrowUp" && event.target === list)) move(-1);
    else if (event.key === "Home" && event.target === list) move(-shown.length);
    else if (event.key === "End" && event.target === list) move(shown.length);
    else if (event.key === "Enter" && event.target === list && current) byId("detail").focus();
    else if (event.key === "/") byId("search").focus();
    else if (event.key === "o") overview();
    else if (event.key === "r") {
      const texts = document.querySelectorAll("#problem .solutions details");
      const open = ![...texts].every((text) => text.open);
      for (const text of texts) text.open = open;
    }
    else return;
    event.preventDefault();
  });
  byId("overview-button").addEventListener("click", overview);
  byId("back").addEventListener("click", () => {
    document.body.classList.remove("open");
    list.focus();
  });

  find();
  marked();
  const linked = /^#p(\d+)$/.exec(location.hash);
  const first = linked && chosenOnes.find((one) => one.rank === Number(linked[1]) - 1);
  if (first) await open(first);
  document.documentElement.dataset.ready = "list";
  // Whole texts for the search, piece by piece, so that the page stays at hand.
  for (let number = 0; number * PER_PIECE < chosenOnes.length; number++) {
    const records = await piece(number);
    records.forEach((record, at) => {
      const one = chosenOnes[number * PER_PIECE + at];
      const parts = [one.haystack, record.problem];
      for (const solution of record.solutions) parts.push(solution.text, solution.tail ?? "", ...solution.steps);
      one.haystack = parts.join("\n").toLowerCase();
    });
    await new Promise((resolve) => setTimeout(resolve));
  }
  searchable = true;
  document.documentElement.dataset.ready = "texts";
  if (byId("search").value) find();
})();
