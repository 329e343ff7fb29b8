"use strict";
// Model output as DOM nodes: Markdown's blocks and emphasis, LaTeX by Temml, everything else as text.
// Nothing is parsed as HTML.
const textView = (() => {
  const MAX_FORMULA = 1500;
  // A dollar sign opens a formula only before a non-blank, and closes one only after a non-blank and
  // not before a digit: "$5 or $10" are prices.
  const FORMULA = new RegExp(
    String.raw`\$\$([\s\S]{1,${MAX_FORMULA}}?)\$\$|\\\[([\s\S]{1,${MAX_FORMULA}}?)\\\]` +
      String.raw`|(\\begin\{(align|equation|gather|eqnarray|multline)(\*?)\}[\s\S]{1,${MAX_FORMULA}}?\\end\{\4\5\})` +
      String.raw`|\\\(([\s\S]{1,${MAX_FORMULA}}?)\\\)` +
      String.raw`|(?<![\\$])\$(?!\s)((?:\\.|[^$\\\n]){1,${MAX_FORMULA}}?)(?<!\s)\$(?!\d)`,
    "g",
  );
  // Stand-ins for formulas while Markdown is read; such characters of the text itself are dropped.
  const OPEN = "\uE000", CLOSE = "\uE001";
  const STAND_IN = new RegExp(`${OPEN}(\\d+)${CLOSE}`, "g");

  const LIMITED = /\\(sum|prod|coprod|bigcup|bigcap|bigoplus|lim|max|min|sup|inf)(?![A-Za-z])(?!\s*\\(no)?limits)/g;

  // An element with a class name, or with attributes.
  const element = (tag, given, ...children) => {
    const made = document.createElement(tag);
    const attributes = typeof given === "object" ? given : given ? { class: given } : {};
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    // Texts of others may run from right to left.
    if (/\b(model|statement)\b/.test(attributes.class)) made.dir = "auto";
    made.append(...children);
    return made;
  };

  // `stop` is the punctuation behind an inline formula: it must not be alone on a line.
  const formula = ({ source, tex, block }, stop) => {
    const holder = element(block ? "div" : "span", block ? "block" : "formula");
    const grouped = tex.includes("\\begin") || tex.includes("\\\\") || tex.includes("\\tag");
    // Outside Temml's display mode limits are set beside their sign unless they are told where to.
    const placed = block && !grouped ? tex.replace(LIMITED, "$&\\limits") : tex;
    const options = { throwOnError: true, trust: false, maxExpand: 500, maxSize: [20, 20] };
    try {
      // A displayed formula without lines of its own may break after its operators, which Temml
      // allows outside its display mode only; the style sheet sets it in display style. Others
      // scroll where they are too wide.
      temml.render(stop ? `${tex}\\text{${stop}}` : placed, holder, { ...options, displayMode: block && grouped, wrap: "tex" });
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      holder.textContent = source + stop; // what cannot be read stays LaTeX
      holder.classList.add("source");
    }
    return holder;
  };

  const take = (text) => {
    const formulas = [];
    const bare = text.replaceAll(OPEN, "").replaceAll(CLOSE, "").replace(/\r\n/g, "\n").replace(
      FORMULA,
      (source, dollars, brackets, environment, _name, _star, parentheses, dollar) => {
        const tex = dollars ?? brackets ?? environment ?? parentheses ?? dollar;
        const block = parentheses === undefined && dollar === undefined;
        formulas.push({ source, tex, block });
        const mark = `${OPEN}${formulas.length - 1}${CLOSE}`;
        return block ? `\n${mark}\n` : mark;
      },
    );
    return { bare, formulas };
  };

  const inline = (target, text, formulas) => {
    const pattern = new RegExp(
      `${STAND_IN.source}|\`([^\`\\n]+)\`|\\*\\*([^*\\n]+(?:\\*[^*\\n]+)*)\\*\\*|(?<![\\w*])\\*([^*\\s][^*\\n]*)\\*(?![\\w*])`,
      "g",
    );
    let at = 0;
    for (const match of text.matchAll(pattern)) {
      const one = match[1] === undefined ? null : formulas[Number(match[1])];
      const before = text.slice(at, match.index);
      // A displayed formula has its own line: line breaks around it would be empty ones.
      target.append(one?.block ? before.trimEnd() : before);
      at = match.index + match[0].length;
      if (one) {
        if (one.block) at += /^\s*/.exec(text.slice(at))[0].length;
        const stop = (!one.block && /^[.,;:!?]/.exec(text.slice(at))?.[0]) || "";
        at += stop.length;
        target.append(formula(one, stop));
      }
      else if (match[2] !== undefined) target.append(element("code", "", match[2]));
      else {
        target.append(inline(element(match[3] === undefined ? "em" : "strong"), match[3] ?? match[4], formulas));
      }
    }
    target.append(text.slice(at));
    return target;
  };

  const source = (text, formulas) => text.replace(STAND_IN, (_, number) => formulas[Number(number)].source);
  const blocksOf = (bare) => {
    const blocks = [];
    let paragraph = [], fence = null;
    const flush = () => {
      if (paragraph.length) blocks.push({ tag: "p", text: paragraph.join("\n") });
      paragraph = [];
    };
    for (const line of bare.split("\n")) {
      if (fence !== null) {
        if (/^\s*```/.test(line)) {
          blocks.push({ tag: "pre", text: fence.join("\n") });
          fence = null;
        } else fence.push(line);
        continue;
      }
      const heading = /^\s{0,3}(#{1,6})\s+(.*)$/.exec(line);
      const item = /^(\s*)([-*+•]|\d{1,3}[.)])\s+(.*)$/.exec(line);
      if (/^\s*```/.test(line)) [flush(), (fence = [])];
      else if (!line.trim()) flush();
      else if (heading) [flush(), blocks.push({ tag: "h5", text: heading[2] })];
      else if (/^\s*(---+|\*\*\*+)\s*$/.test(line)) [flush(), blocks.push({ tag: "hr", text: "" })];
      else if (item) {
        flush();
        blocks.push({ tag: "li", label: item[2], depth: Math.min(4, item[1].length >> 1), text: item[3] });
      } else paragraph.push(line);
    }
    if (fence !== null) blocks.push({ tag: "pre", text: fence.join("\n") });
    flush();
    return blocks;
  };

  /** One line or a short text: formulas and emphasis, and of blocks fenced code alone. */
  const line = (target, text) => {
    if (/^\s*```.*\n/m.test(text)) return whole(target, text); // code keeps its lines
    const { bare, formulas } = take(text);
    for (const one of formulas) one.block = false;
    return inline(target, bare.replace(new RegExp(`\n(${OPEN}\\d+${CLOSE})\n`, "g"), " $1 "), formulas);
  };

  /** A whole text, in blocks. */
  const whole = (target, text) => {
    const { bare, formulas } = take(text);
    for (const block of blocksOf(bare)) {
      if (block.tag === "pre") target.append(element("pre", "", source(block.text, formulas)));
      else if (block.tag === "li") {
        const bullet = element("span", "bullet", /\d/.test(block.label) ? block.label : "•");
        target.append(inline(element("p", `item d${block.depth}`, bullet), block.text, formulas));
      } else target.append(inline(element(block.tag), block.text, formulas));
    }
    return target;
  };

  return { line, whole, element };
})();
