// Nodes of pages. Texts are set as text, and shapes tell states for whoever does not see colours.

const SVG = "http://www.w3.org/2000/svg";

export function el(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
        if (value === null || value === undefined || value === false) continue;
        if (key === "on") {
            for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
        } else {
            node.setAttribute(key, value === true ? "" : value);
        }
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
    return node;
}

// A name of others: it does not turn round what stands beside it.
export function name(text, attributes = {}) {
    return el("bdi", attributes, text);
}

function svg(viewBox, className, parts) {
    const node = document.createElementNS(SVG, "svg");
    node.setAttribute("viewBox", viewBox);
    node.setAttribute("class", className);
    node.setAttribute("aria-hidden", "true");
    for (const [tag, attributes] of parts) {
        const part = document.createElementNS(SVG, tag);
        for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
        node.append(part);
    }
    return node;
}

const mark = (d) => ["path", { d, class: "mark" }];

const SEVERITIES = {
    "down": [["path", { d: "M7.5 1.5h9l6 6v9l-6 6h-9l-6-6v-9z", class: "body" }], mark("M8 8l8 8M16 8l-8 8")],
    "critical": [["path", { d: "M12 1.8L23 21.5H1z", class: "body" }], mark("M12 9v5.5M12 18v.2")],
    "degraded": [["path", { d: "M12 1.8L23 21.5H1z", class: "body" }], mark("M12 9v5.5M12 18v.2")],
    "unknown": [["rect", { x: 2, y: 2, width: 20, height: 20, rx: 4, class: "body" }], mark("M9 9.5c0-4 6-4 6 0 0 2.6-3 2.4-3 5M12 18v.2")],
    "warning": [["path", { d: "M12 1l11 11-11 11L1 12z", class: "body" }], mark("M12 7v6M12 16.6v.2")],
    "busy": [["circle", { cx: 12, cy: 12, r: 9, class: "ring" }], ["path", { d: "M12 3a9 9 0 0 1 9 9", class: "turn" }]],
    "fine": [["circle", { cx: 12, cy: 12, r: 11, class: "body" }], mark("M7 12.5l3.5 3.5 6.5-7.5")],
};

export function severity(of, large = false) {
    return svg("0 0 24 24", `severity ${of}${large ? " large" : ""}`, SEVERITIES[of] ?? SEVERITIES.unknown);
}

const SHAPES = {
    "well": [["circle", { cx: 12, cy: 12, r: 9, class: "body" }], mark("M8 12.4l2.8 2.8 5.2-6")],
    "watch": [["path", { d: "M12 2l10 10-10 10L2 12z", class: "body" }], mark("M12 8v5M12 16v.2")],
    "filling": [["circle", { cx: 12, cy: 12, r: 9, class: "ring" }], ["path", { d: "M12 12V3a9 9 0 0 1 0 18z", class: "body" }]],
    "spare": [["circle", { cx: 12, cy: 12, r: 8.5, class: "ring dashed" }]],
    "lost": [["path", { d: "M12 2.5L22.5 21h-21z", class: "body" }], mark("M9.2 12.2l5.6 5.6M14.8 12.2l-5.6 5.6")],
    "missing": [["rect", { x: 3.5, y: 3.5, width: 17, height: 17, rx: 3, class: "ring dashed" }]],
};

export function shape(of) {
    return svg("0 0 24 24", `shape ${of}`, SHAPES[of] ?? SHAPES.missing);
}

export const SHAPE_WORDS = {
    "well": "in use",
    "watch": "in use, look at it",
    "filling": "being filled",
    "spare": "spare",
    "lost": "out of use",
    "missing": "missing",
};

// A bar; its width is no inline style but set by script, as the policy of the page wants it.
export function progress(percent, label) {
    const value = Math.max(0, Math.min(100, percent));
    const fill = el("span", { class: "fill" });
    fill.style.width = `${value}%`;
    return el("div", { class: "progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": value.toFixed(1), "aria-label": label }, fill);
}

// Puts a part of a page anew, unless it is as it was: what is focused, selected or read aloud stays.
export function put(place, key, make) {
    if (place.dataset.key === key) return;
    const focused = document.activeElement?.id;
    place.dataset.key = key;
    place.replaceChildren(...[make()].flat(Infinity).filter(Boolean));
    if (focused && document.activeElement === document.body) document.getElementById(focused)?.focus();
}
