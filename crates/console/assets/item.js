// The page of an array or a pool: its members in their roles, which disk to pull, rates, clients, events.

import { Chart, eachSecond, requests } from "./charts.js";
import { el, name, put, severity, shape } from "./draw.js";
import { ask, readOnly, step } from "./mend.js";
import { rates, running, sentence } from "./overview.js";
import { bytes, count, micros, moment, plural, shown, span } from "./words.js";

let charts = null;

function frame(main, item) {
    const part = (id, title, ...content) => el("section", { class: "part", id, "aria-label": title }, el("h2", {}, title), content);
    main.replaceChildren(
        el("p", { class: "crumbs" }, el("a", { href: "/" }, "Overview"), " / ", name(shown(item.name, 64))),
        el("section", { class: "head" }),
        part("members", "Members", el("div", { class: "roles" }), el("div", { class: "drives" })),
        part("rates", "Last five minutes",
            el("div", { class: "charts" },
                el("figure", {}, el("figcaption", {}, "Clients, bytes"), el("div", { class: "chart", id: "chart-bytes" }, el("p", { class: "loading" }, "A moment…"))),
                el("figure", {}, el("figcaption", {}, "Clients, requests"), el("div", { class: "chart", id: "chart-requests" }, el("p", { class: "loading" }, "A moment…"))))),
        part("clients", "Clients and exports", el("div", { class: "list" })),
        part("facts", "Facts", el("div", { class: "list" })),
        part("events", "Events", el("div", { class: "list" })));
    charts = null;
}

function roleCard(member) {
    const drive = member.drive ?? {};
    const lines = [drive.model && ["Model", drive.model], drive.serial && ["Serial", drive.serial], drive.slot && ["Slot", drive.slot], drive.by_id && ["By-id", drive.by_id], member.path && ["Path", member.path, "path"]].filter(Boolean);
    return el("li", { class: `member ${member.shape}`, "data-shape": member.shape },
        el("div", { class: "top" }, shape(member.shape), el("span", { class: "place" }, member.place === "-" ? "spare" : member.place), el("span", { class: `state ${member.shape}` }, shown(member.state))),
        el("p", { class: "file" }, name(shown(member.file, 48), { title: shown(member.path ?? "", 400) })),
        el("dl", {}, lines.map(([word, value, of]) => [el("dt", { class: of }, word), el("dd", { class: of }, name(shown(value, 80)))])),
        member.notes.map((note) => el("p", { class: "note" }, shown(note, 300))),
        (member.errors > 0 || member.corrected > 0) && el("p", { class: "note" }, `${plural(member.errors, "error", "errors")}, ${count(member.corrected)} corrected`));
}

function roles(members) {
    const groups = [...new Set(members.map((member) => member.group ?? ""))];
    return groups.map((group) => [
        group !== "" && el("h3", {}, group),
        el("ul", { class: "grid" }, members.filter((member) => (member.group ?? "") === group).map(roleCard)),
    ]);
}

function table(head, rows, empty) {
    if (rows.length === 0) return el("p", { class: "about" }, empty);
    const number = (at) => (head[at].startsWith("#") ? "number" : null);
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" }, el("table", {},
        el("thead", {}, el("tr", {}, head.map((word, at) => el("th", { scope: "col", class: number(at) }, word.replace("#", ""))))),
        el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, at) => el("td", { class: number(at) }, cell)))))));
}

function drives(series, members) {
    const places = new Map(members.map((member) => [member.path, member]));
    const latency = (pair) => (pair ? `${micros(pair[0])} / ${micros(pair[1])}` : "–");
    const rows = series.members.map((one) => [
        name(shown(places.get(one.path)?.file ?? one.path, 48)),
        `${bytes(one.read)}/s`, `${bytes(one.written)}/s`, count(one.requests), latency(one.read_latency), latency(one.write_latency),
    ]);
    return table(["Member", "#Read", "#Written", "#Requests/s", "#Read, half / 99 %", "#Write, half / 99 %"], rows, "Rates of members: a moment…");
}

function clients(item, report) {
    const all = report.clients ?? [];
    const end = (client) => el("button", {
        type: "button", class: "small", disabled: readOnly(),
        on: {
            click: () => ask({
                title: "Disconnect a client",
                text: el("p", {}, "The connection from ", name(shown(client.address), { class: "strong" }), " is ended. A client that is set to do so connects again."),
                command: `brindle disconnect ${item.name} ${client.address}`,
                button: "Disconnect",
                order: { ask: "disconnect", array: item.name, client: client.address },
                server: item.server,
                danger: true,
            }),
        },
    }, "Disconnect");
    const rows = all.slice(0, 64).map((client) => [
        shown(client.protocol), name(shown(client.address)), shown(client.volume ?? item.name, 64), client.tls ? "yes" : "no",
        shown((client.proved ?? []).join(", ") || client.initiator || "–"), span(client.seconds ?? 0), bytes(client.bytes_read), bytes(client.bytes_written), end(client),
    ]);
    const uris = [...(report.nbd ?? []), ...(Array.isArray(report.iscsi) ? report.iscsi : report.iscsi?.addresses ?? [])];
    const devices = [report.device, ...(report.devices ?? []).map((pair) => pair[1])].filter(Boolean);
    return [
        table(["Protocol", "Address", "Of", "TLS", "Proved", "#For", "#Read", "#Written", ""], rows, "No client is connected."),
        el("p", { class: "about" }, report.exported ? "Exported at " : "Offered to no client. It would be at ", uris.slice(0, 16).map((uri, at) => [at > 0 ? ", " : "", el("code", {}, shown(uri, 200))])),
        devices.length > 0 && el("p", { class: "about" }, "Devices of this machine: ", el("code", {}, shown(devices.join(", "), 400))),
    ];
}

const yes = (value) => (value ? "yes" : "no");

function facts(report) {
    const rows = [];
    const add = (word, value) => value !== null && value !== undefined && value !== "" && value !== false && rows.push([word, shown(value, 300)]);
    const array = report.array;
    const pool = report.pool;
    const last = report.last_action;
    if (array) {
        add("Name", array.name);
        add("UUID", array.uuid);
        add("Level", [array.level, array.layout].filter(Boolean).join(", "));
        add("Chunk", array.chunk && bytes(array.chunk));
        add("Size", bytes(array.size));
        add("Used of each member", array.component_size && bytes(array.component_size));
        add("State", (array.state ?? []).join(", "));
        add("Metadata", array.metadata);
        add("Kept consistent by", array.consistency_policy);
        add("Bitmap", array.bitmap && `${count(array.bitmap.dirty)} of ${count(array.bitmap.bits)} bits set`);
        if (last) {
            add("Last", `${last.action}${last.error ? `, ended early: ${last.error}` : ""}`);
            add("Mismatches", `${count(last.mismatch_cnt)} sectors of 512 bytes`);
            add("Could not be read", last.unreadable > 0 && bytes(last.unreadable));
            add("Not compared", last.unverified > 0 && bytes(last.unverified));
        }
    }
    if (pool) {
        add("UUID", pool.uuid);
        add("State", (pool.state ?? []).join(", "));
        add("Volumes may have", bytes(pool.capacity));
        add("Given to volumes", bytes(pool.sold));
        add("Stored", bytes(pool.stored));
        add("With less redundancy", pool.thin > 0 && bytes(pool.thin));
        add("Blocks found wrong", `${count(pool.blocks_wrong)}, ${count(pool.blocks_mended)} mended, ${count(pool.blocks_lost)} lost`);
        add("Scrubbed", pool.scrubbed ? moment(pool.scrubbed) : "never as a whole");
        for (const volume of (report.volumes ?? []).slice(0, 64)) add(`Volume ${shown(volume.name, 64)}`, bytes(volume.size));
        for (const place of (pool.damaged ?? []).slice(0, 16)) add(`Lost in ${shown(place.volume, 64)}`, `${bytes(place.length)} from byte ${place.offset} on`);
    }
    add("Requests so far", report.requests !== undefined && `${count(report.requests)}, ${count(report.errors)} failed`);
    add("Offered to clients", report.exported !== undefined && yes(report.exported));
    add("Process", report.pid);
    return el("dl", { class: "facts" }, rows.map(([word, value]) => [el("dt", {}, word), el("dd", {}, name(value))]));
}

export function eventList(events, withName = false) {
    if (events.length === 0) return el("p", { class: "about" }, "Nothing has happened since the server began.");
    return el("ol", { class: "events" }, events.map((event) => el("li", {},
        el("time", { datetime: new Date(event.at * 1000).toISOString() }, moment(event.at)),
        withName && el("span", { class: "of" }, name(shown(event.name, 40))),
        el("span", {}, shown(event.text || event.kind, 600)))));
}

export function item(main, { item: told, report, series }) {
    if (!main.querySelector(".head")) frame(main, told);
    const fixed = { ...told, rates: null };
    put(main.querySelector(".head"), JSON.stringify(fixed), () => [
        severity(told.severity, true),
        el("div", { class: "body" },
            el("h1", {}, name(shown(told.name, 64)), el("span", { class: `word ${told.severity}` }, shown(told.word))),
            el("p", { class: "about" }, shown(told.title), told.server !== told.name ? [" · server ", name(shown(told.server, 64))] : null),
            el("p", { class: "sentence" }, sentence(told)),
            running(told.running),
            step(told, "mend")),
    ]);
    put(main.querySelector("#members .roles"), JSON.stringify(told.members), () => roles(told.members));
    put(main.querySelector("#members .drives"), JSON.stringify(series.members), () => drives(series, told.members));
    charts ??= {
        bytes: new Chart(main.querySelector("#chart-bytes"), [["Read", "--read"], ["Written", "--written", [6, 3]]], eachSecond),
        requests: new Chart(main.querySelector("#chart-requests"), [["Requests", "--requests"]], requests),
    };
    charts.bytes.set([series.at, series.read, series.written]);
    charts.requests.set([series.at, series.requests]);
    put(main.querySelector("#clients .list"), JSON.stringify([report.clients, report.exported, report.nbd]), () => clients(told, report));
    put(main.querySelector("#facts .list"), JSON.stringify({ ...report, clients: 0, read_latency: 0, write_latency: 0, events: 0, devices: 0 }), () => facts(report));
    put(main.querySelector("#events .list"), JSON.stringify(report.events ?? []), () => eventList([...(report.events ?? [])].reverse()));
    return told;
}

export { rates };
