// The one button that helps: it shows the command that it runs, asks once, and shows the program's own answer.

import { el, name } from "./draw.js";
import { bytes, file, shown } from "./words.js";

const token = () => document.querySelector("meta[name=page-token]").content;
export const readOnly = () => document.body.dataset.readOnly === "true";

export async function post(path, body) {
    const answer = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Page-Token": token() },
        body: JSON.stringify(body),
    });
    let told = {};
    if (answer.status !== 204) told = await answer.json().catch(() => ({ error: `the answer can't be read (${answer.status})` }));
    if (!answer.ok) throw new Error(told.error ?? `refused (${answer.status})`);
    return told;
}

// As a shell takes a word.
function quoted(word) {
    return /^[A-Za-z0-9\-_./:=+,@%]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

let done = () => {};
export function onDone(then) {
    done = then;
}

function dialog() {
    return document.getElementById("dialog");
}

function open(...content) {
    const box = dialog();
    box.replaceChildren(...content.flat(Infinity).filter(Boolean));
    if (!box.open) box.showModal();
}

function close() {
    dialog().close();
}

// Asks once. `order` is given as it is, with `server`.
function confirm({ title, text, command, button, order, server, danger, typed }) {
    const answer = el("p", { class: "answer", role: "alert", hidden: true });
    const word = typed && el("input", { id: "typed", type: "text", autocomplete: "off", spellcheck: "false" });
    const go = el("button", { id: "confirm", class: danger ? "danger" : "primary", type: "submit", disabled: Boolean(typed) }, button);
    if (word) word.addEventListener("input", () => { go.disabled = word.value !== typed; });
    const form = el("form", {
        on: {
            submit: async (event) => {
                event.preventDefault();
                go.disabled = true;
                go.textContent = "Waiting for the server…";
                try {
                    await post("/api/v1/orders", { ...order, server, ...(typed ? { typed: word.value } : {}) });
                    close();
                    done();
                } catch (why) {
                    answer.hidden = false;
                    answer.textContent = shown(why.message, 2000);
                    go.textContent = button;
                    go.disabled = false;
                }
            },
        },
    },
        el("h2", { id: "dialog-title" }, title),
        text,
        el("p", { class: "runs" }, "It runs"),
        el("pre", { class: "command" }, el("code", {}, shown(command, 1000))),
        typed && el("div", { class: "typed" }, el("label", { for: "typed" }, "Type ", el("code", {}, shown(typed, 400)), " to go on"), word),
        answer,
        el("div", { class: "buttons" }, el("button", { type: "button", on: { click: close } }, "Cancel"), go),
    );
    open(form);
    (word ?? go).focus();
}

function disk(of) {
    const drive = [of.drive?.model, of.drive?.serial && `serial ${of.drive.serial}`].filter(Boolean);
    return { title: file(of.path), about: [of.size === null ? "size unknown" : bytes(of.size), ...drive].map((word) => shown(word)).join(" · ") };
}

// Disks that could come: blank ones that are large enough, smallest first. All others are named with the reason, and are not offered.
async function choose(item, mend) {
    const note = el("p", { class: "loading" }, "Looking at the disks…");
    open(el("h2", { id: "dialog-title" }, mend.button), note, el("div", { class: "buttons" }, el("button", { type: "button", on: { click: close } }, "Cancel")));
    let disks;
    try {
        const answer = await fetch(`/api/v1/disks/${encodeURIComponent(item.server)}`);
        disks = await answer.json();
        if (!answer.ok) throw new Error(disks.error);
    } catch (why) {
        note.className = "answer";
        note.textContent = shown(why.message, 2000);
        return;
    }
    const fits = (one) => one.size !== null && one.size >= mend.least && !one.refused;
    const bySize = (one, other) => one.size - other.size || (one.path < other.path ? -1 : 1);
    const blank = disks.filter((one) => one.blank && fits(one)).sort(bySize);
    const carrying = disks.filter((one) => !one.blank && fits(one)).sort(bySize);
    const others = disks.filter((one) => !fits(one));
    const pick = (one, force) => {
        const { title, about } = disk(one);
        const order = structuredClone(mend.order);
        if (order.devices) order.devices = [one.path];
        else order.with = one.path;
        if (force) order.force = true;
        const words = mend.command.replace("DEVICE", () => quoted(one.path));
        const command = force ? words.replace(/^brindle (pool replace|replace|add)/, "brindle $1 --force") : words;
        const lost = force && el("p", { class: "answer" }, `It carries ${shown(one.holds.join(", ") || "something that is not known", 600)}. All of that is lost.`);
        confirm({
            title: `${mend.button}: ${title}`,
            text: [el("p", {}, name(title, { class: "strong" }), ` (${about}) becomes a member of `, name(shown(item.name), { class: "strong" }), "."), lost],
            command,
            button: mend.button,
            order,
            server: item.server,
            danger: force,
            typed: force ? one.path : null,
        });
    };
    if (blank.length > 0 && carrying.length === 0 && others.length === 0 && blank.length === 1) return pick(blank[0], false);
    const row = (one, force) => {
        const { title, about } = disk(one);
        return el("li", {}, el("button", { type: "button", class: "disk", on: { click: () => pick(one, force) } },
            name(title, { class: "strong" }), el("span", { class: "about" }, about),
            force && el("span", { class: "about" }, `carries ${shown(one.holds.join(", ") || "something that is not known")}`)));
    };
    const reason = (one) => one.refused ?? `too small: ${bytes(one.size ?? 0)} of ${bytes(mend.least)}`;
    open(
        el("h2", { id: "dialog-title" }, mend.button),
        blank.length > 0
            ? [el("p", {}, "Blank, and large enough:"), el("ul", { class: "disks" }, blank.slice(0, 24).map((one) => row(one, false)))]
            : el("p", {}, mend.least > 0 ? `There is no blank disk of at least ${bytes(mend.least)}. Plug one in, and look again.` : "There is no blank disk. Plug one in, and look again."),
        carrying.length > 0 && el("details", {}, el("summary", {}, carrying.length === 1 ? "One that carries something" : `${carrying.length} that carry something`),
            el("p", { class: "hint" }, "What is on it would be lost: its name has to be typed."), el("ul", { class: "disks" }, carrying.slice(0, 24).map((one) => row(one, true)))),
        others.length > 0 && el("details", {}, el("summary", {}, `${others.length} that can't be used`),
            el("ul", { class: "plain" }, others.slice(0, 64).map((one) => el("li", {}, name(file(one.path), { class: "strong" }), ` ${shown(reason(one), 400)}`)))),
        el("div", { class: "buttons" }, el("button", { type: "button", on: { click: close } }, "Cancel"), el("button", { type: "button", on: { click: () => choose(item, mend) } }, "Look again")),
    );
    dialog().querySelector("button.disk")?.focus();
}

// The row with the next step: its reason, and its button or command.
export function step(item, id) {
    const next = item.next;
    if (!next) return null;
    const { mend } = next;
    const begin = () => {
        if (mend.how === "device") return choose(item, mend);
        const text = el("p", {}, name(shown(item.name), { class: "strong" }), `: ${shown(next.why, 400)}.`);
        confirm({ title: mend.button, text, command: next.command, button: mend.button, order: mend.order, server: item.server });
    };
    const can = mend.how === "order" || mend.how === "device";
    const button = can && el("button", { id, class: "primary", type: "button", disabled: readOnly(), title: readOnly() ? "This console only shows" : null, on: { click: begin } }, mend.button);
    if (mend.how === "wait") return null;
    const why = shown(next.why, 400);
    return el("div", { class: "step" },
        el("p", {}, el("span", { class: "label" }, "Next: "), why, mend.how === "shell" ? `. ${mend.why}.` : ""),
        button,
        !can && el("pre", { class: "command" }, el("code", {}, shown(next.command, 600))));
}

export function ask(options) {
    confirm(options);
}
