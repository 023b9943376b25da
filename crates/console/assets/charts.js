// Rates of the last minutes, drawn by uPlot. Colours are those of the style sheet.

import { bytes, count } from "./words.js";

const colour = (of) => getComputedStyle(document.documentElement).getPropertyValue(of).trim();

function options(place, series, format) {
    const line = (label, stroke, dash) => ({ label, stroke: () => colour(stroke), width: 1.75, dash, points: { show: false }, value: (_, value) => (value === null ? "–" : format(value)) });
    const axis = { stroke: () => colour("--quiet"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return {
        width: place.clientWidth,
        height: 180,
        padding: [12, 30, 0, 0],
        cursor: { y: false, points: { size: 6 } },
        legend: { live: true },
        scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high * 1.1, 10)] } },
        axes: [{ ...axis, values: [[60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]], space: 80 }, { ...axis, size: 74, values: (_, all) => all.map(format) }],
        series: [{ value: "{HH}:{mm}:{ss}" }, ...series.map(([label, stroke, dash]) => line(label, stroke, dash))],
    };
}

export class Chart {
    constructor(place, series, format) {
        this.place = place;
        this.of = { series, format };
        this.plot = null;
        new ResizeObserver(() => this.plot?.setSize({ width: place.clientWidth, height: 180 })).observe(place);
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.plot?.redraw());
    }

    set(data) {
        if (data[0].length < 2 || !window.uPlot) return;
        if (this.plot === null) {
            this.place.replaceChildren();
            this.plot = new uPlot(options(this.place, this.of.series, this.of.format), data, this.place);
        } else {
            this.plot.setData(data);
        }
    }
}

export const eachSecond = (value) => `${bytes(value)}/s`;
export const requests = (value) => `${count(value)}/s`;
