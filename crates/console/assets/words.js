// Names, amounts and times as people read them. Everything ends as text of a node, never as markup.

// Signs that are not seen, steer, or turn round the order of others are written out.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const MOST = 160;

export function shown(text, most = MOST) {
    const letters = [...String(text ?? "")];
    const cut = letters.length > most ? letters.slice(0, most).join("") + "…" : letters.join("");
    return cut.replace(HIDDEN, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

export function file(path) {
    const parts = String(path ?? "").split("/").filter((part) => part !== "");
    return shown(parts.length > 0 ? parts[parts.length - 1] : path);
}

export function bytes(count) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let value = Number(count) || 0;
    let at = 0;
    while (value >= 1024 && at < units.length - 1) {
        value /= 1024;
        at += 1;
    }
    const digits = value < 10 && at > 0 && value % 1 > 0.04 ? 1 : 0;
    return `${value.toFixed(digits)} ${units[at]}`;
}

export function count(number) {
    return Math.round(Number(number) || 0).toLocaleString("en");
}

export function plural(number, one, many) {
    return `${count(number)} ${number === 1 ? one : many}`;
}

export function span(seconds) {
    const left = Math.max(0, Math.round(seconds));
    if (left < 60) return `${left} s`;
    if (left < 3600) return `${Math.floor(left / 60)} min ${left % 60} s`;
    if (left < 86400) return `${Math.floor(left / 3600)} h ${Math.floor((left % 3600) / 60)} min`;
    return `${Math.floor(left / 86400)} d ${Math.floor((left % 86400) / 3600)} h`;
}

const pad = (number) => String(number).padStart(2, "0");

// The time of day; with the date unless that is today.
export function moment(at) {
    const then = new Date(at * 1000);
    const time = `${pad(then.getHours())}:${pad(then.getMinutes())}`;
    if (then.toDateString() === new Date().toDateString()) return time;
    return `${then.getFullYear()}-${pad(then.getMonth() + 1)}-${pad(then.getDate())} ${time}`;
}

export function micros(value) {
    if (value === null || value === undefined) return "–";
    if (value < 1000) return `${value} µs`;
    if (value < 1000000) return `${(value / 1000).toFixed(value < 10000 ? 1 : 0)} ms`;
    return `${(value / 1000000).toFixed(1)} s`;
}

export function link(item) {
    return `/of/${encodeURIComponent(item.server)}/${encodeURIComponent(item.name)}`;
}
