// Asks once a second, and shows what has changed. A page that is not seen asks less often.

import { el, put } from "./draw.js";
import { eventList, item } from "./item.js";
import { onDone, post } from "./mend.js";
import { overview, summary } from "./overview.js";
import { shown } from "./words.js";

const EVERY = 1000;
const UNSEEN = 5000;
const { part, host } = document.body.dataset;
// By its address: markup would change some signs of a name.
const [server, name] = part === "item" ? location.pathname.split("/").slice(2).map(decodeURIComponent) : ["", ""];
const main = document.getElementById("main");
const connection = document.getElementById("connection");
const tags = new Map();
let timer = null;
let failures = 0;

// What is told anew; null if it is as it was.
async function asked(path) {
    const known = tags.get(path);
    const answer = await fetch(path, { headers: known ? { "If-None-Match": known } : {}, cache: "no-store", signal: AbortSignal.timeout(20000) });
    if (answer.status === 401) {
        location.assign("/login");
        return null;
    }
    if (answer.status === 304) return null;
    const told = await answer.json();
    if (!answer.ok) throw Object.assign(new Error(told.error), { told: true });
    tags.set(path, answer.headers.get("ETag"));
    return told;
}

function title(words, icon) {
    document.title = `${words} · ${shown(host, 64)} · Brindle`;
    const node = document.getElementById("icon");
    const path = `/assets/${icon}.svg`;
    if (node.getAttribute("href") !== path) node.setAttribute("href", path);
}

const WORSE = ["down", "critical", "degraded", "warning"];
const iconOf = (severity) => (WORSE.includes(severity) ? "wrong" : severity === "unknown" ? "unknown" : "fine");

async function look() {
    if (part === "overview") {
        const told = await asked("/api/v1/overview");
        if (told) {
            const head = overview(main, told);
            title(head.words, head.icon);
        }
    } else if (part === "item") {
        const told = await asked(`/api/v1/item/${encodeURIComponent(server)}/${encodeURIComponent(name)}`);
        if (told) {
            const of = item(main, told);
            title(`${shown(of.name, 40)}: ${shown(of.word)}`, iconOf(of.severity));
        }
    } else {
        const [events, told] = await Promise.all([asked("/api/v1/events"), asked("/api/v1/overview")]);
        if (events) {
            if (!main.querySelector("h1")) main.replaceChildren(el("h1", {}, "Events"), el("div", { class: "list" }));
            put(main.querySelector(".list"), JSON.stringify(events), () => eventList(events, true));
        }
        if (told) title("Events", summary(told).icon);
    }
    main.setAttribute("aria-busy", "false");
}

function told(why) {
    if (why.told) {
        main.replaceChildren(el("div", { class: "empty" }, el("p", {}, shown(why.message, 600)), el("p", {}, el("a", { href: "/" }, "To the overview"))));
        title("Not found", "unknown");
        tags.clear();
        return;
    }
    // One answer that is lost is not yet told.
    if (failures < 2) return;
    connection.hidden = false;
    connection.textContent = "The console does not answer: what stands here may be out of date. Is it running?";
    document.body.classList.add("stale");
    title("Console gone", "unknown");
}

async function turn() {
    clearTimeout(timer);
    try {
        await look();
        if (failures > 0) {
            tags.clear();
            connection.hidden = true;
            document.body.classList.remove("stale");
        }
        failures = 0;
    } catch (why) {
        failures += why.told ? 0 : 1;
        told(why);
    }
    timer = setTimeout(turn, document.hidden ? UNSEEN : EVERY);
}

onDone(() => {
    tags.clear();
    turn();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) turn(); });
document.getElementById("sign-out").addEventListener("click", async () => {
    await post("/api/v1/sign-out", {}).catch(() => {});
    location.assign("/login");
});
turn();
