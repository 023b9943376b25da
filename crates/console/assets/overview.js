// The first page: everything that is served, worst first. Nothing has to be clicked to see that something is wrong, or that nothing is.

import { el, name, progress, put, severity, shape, SHAPE_WORDS } from "./draw.js";
import { step } from "./mend.js";
import { bytes, count, link, moment, plural, shown, span } from "./words.js";

const WRONG = ["down", "unknown", "critical", "degraded", "warning"];
export const isWrong = (item) => WRONG.includes(item.severity);

const SERVER_WORDS = {
    "loading": "Asking",
    "silent": "Does not answer",
    "gone": "Gone",
    "closed": "May not be asked",
    "other-version": "Of another version",
    "unreadable": "Answers what can't be read",
};

// The whole in a line, for the page's head, its title and its icon.
export function summary({ servers, items }) {
    const wrong = items.filter(isWrong);
    const mute = servers.filter((server) => !["answers", "loading"].includes(server.answering));
    const arrays = items.filter((item) => item.kind === "array").length;
    const pools = items.filter((item) => item.kind === "pool").length;
    const what = [arrays > 0 && plural(arrays, "array", "arrays"), pools > 0 && plural(pools, "pool", "pools")].filter(Boolean).join(", ");
    if (wrong.length > 0) {
        const all = items.length;
        const words = wrong.length === 1 ? `${shown(wrong[0].name, 40)}: ${shown(wrong[0].word)}` : `${wrong.length} of ${all} need attention`;
        return { severity: wrong[0].severity, words, about: what, icon: wrong[0].severity === "unknown" ? "unknown" : "wrong" };
    }
    if (mute.length > 0) {
        return { severity: "unknown", words: "Not everything is known", about: what, icon: "unknown" };
    }
    if (items.length === 0) {
        const loading = servers.some((server) => server.answering === "loading");
        return loading
            ? { severity: "unknown", words: "Asking the servers…", about: "", icon: "unknown" }
            : { severity: "unknown", words: "Nothing is served", about: servers.length > 0 ? plural(servers.length, "server runs", "servers run") : "no server runs", icon: "unknown" };
    }
    const busy = items.some((item) => item.severity === "busy");
    return { severity: busy ? "busy" : "fine", words: "Everything is fine", about: what, icon: "fine" };
}

export function running(of) {
    if (!of) return null;
    const words = [`${of.percent.toFixed(of.percent < 99.95 ? 1 : 0)} %`];
    if (of.paused) words.push("paused");
    if (of.speed !== null && of.speed !== undefined) words.push(`${bytes(of.speed)}/s`);
    if (of.left !== null && of.left !== undefined) words.push(`${span(of.left)} left`);
    return el("div", { class: "running" },
        el("p", {}, el("span", { class: "strong" }, of.words), el("span", { class: "amount" }, words.join(" · "))),
        progress(of.percent, of.words));
}

export function strip(members, most = 64) {
    const list = members.slice(0, most).map((member) => {
        const words = `${member.group ? `${member.group}, ` : ""}${member.place}: ${member.file}, ${member.state}`;
        return el("li", { title: shown(words, 300) }, shape(member.shape), el("span", { class: "unseen" }, shown(words, 300)));
    });
    const more = members.length - most;
    return el("ul", { class: "strip", "aria-label": "Members" }, list, more > 0 && el("li", { class: "about" }, `and ${more} more`));
}

function tally(members) {
    const kinds = ["lost", "missing", "filling", "watch", "spare", "well"];
    const words = kinds.map((kind) => [kind, members.filter((member) => member.shape === kind).length]).filter(([, number]) => number > 0);
    return words.map(([kind, number]) => `${number} ${SHAPE_WORDS[kind]}`).join(", ");
}

export function rates(of) {
    if (!of) return el("span", { class: "about" }, "rates: a moment…");
    if (of.requests === 0 && of.read === 0 && of.written === 0) return el("span", { class: "about" }, "idle in the last minute");
    return el("span", { class: "about" }, `${bytes(of.read)}/s read · ${bytes(of.written)}/s written · ${count(of.requests)} requests/s`);
}

export function sentence(item) {
    const { cause, since } = item;
    if (since && cause && item.sentence.startsWith(cause)) {
        return `${shown(cause, 400)} at ${moment(since)}${shown(item.sentence.slice(cause.length), 900)}.`;
    }
    return `${shown(item.sentence, 900)}.`;
}

function card(item, at) {
    return el("article", { class: `card ${item.severity}`, "data-name": shown(item.name), "data-severity": item.severity },
        el("div", { class: "side" }, severity(item.severity, true)),
        el("div", { class: "body" },
            el("h2", {}, el("a", { href: link(item), id: `item-${at}` }, name(shown(item.name, 64))), el("span", { class: `word ${item.severity}` }, shown(item.word))),
            el("p", { class: "about" }, shown(item.title), item.server !== item.name ? [" · server ", name(shown(item.server, 64))] : null),
            el("p", { class: "sentence" }, sentence(item)),
            running(item.running),
            step(item, `mend-${at}`),
            el("div", { class: "foot" }, item.members.length > 0 && [strip(item.members), el("span", { class: "about" }, tally(item.members))], item.kind !== "other" && item.severity !== "down" && rates(item.rates))));
}

function mute(server) {
    return el("li", { class: "notice" }, severity("unknown"), el("div", {}, el("strong", {}, SERVER_WORDS[server.answering] ?? server.answering), el("p", {}, shown(server.why ?? "", 900))));
}

function empty(servers) {
    const answering = servers.filter((server) => server.answering === "answers");
    if (servers.length > answering.length) return null;
    return el("div", { class: "empty" },
        el("p", {}, answering.length > 0 ? "A server runs, and has nothing to serve yet." : "No server runs here."),
        el("p", { class: "hint" }, "Four disks become an array by"),
        el("pre", { class: "command" }, el("code", {}, "brindle create --level 6 --name data /dev/disk/by-id/DISK1 … DISK4\nsystemctl enable --now brindle")),
        el("p", { class: "hint" }, "The pages show it as soon as it is served."));
}

let cards = [];

export function overview(main, told) {
    const { servers, items } = told;
    if (!main.querySelector(".hero")) {
        main.replaceChildren(el("section", { class: "hero", "aria-live": "polite" }), el("ul", { class: "mute" }), el("section", { class: "cards", "aria-label": "Arrays and pools" }), el("div", { class: "none" }));
        cards = [];
    }
    const head = summary(told);
    put(main.querySelector(".hero"), JSON.stringify(head), () => [severity(head.severity, true), el("div", {}, el("h1", {}, head.words), el("p", { class: "about" }, head.about))]);
    const silent = servers.filter((server) => !["answers", "loading"].includes(server.answering));
    put(main.querySelector(".mute"), JSON.stringify(silent), () => silent.map(mute));
    const place = main.querySelector(".cards");
    while (cards.length < items.length) {
        cards.push(el("div", {}));
        place.append(cards[cards.length - 1]);
    }
    while (cards.length > items.length) cards.pop().remove();
    items.forEach((item, at) => put(cards[at], JSON.stringify(item), () => card(item, at)));
    put(main.querySelector(".none"), String(items.length > 0) + silent.length + servers.length, () => (items.length > 0 ? [] : [empty(servers)]));
    return head;
}
