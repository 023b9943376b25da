// What all reports share: charts that follow the width, legends that hide, tables that sort and filter. Names are text, never markup.
const brindle = (() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const element = (id) => document.getElementById(id);

  function make(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // Figures as people read them: four digits that count, and spaces between thousands.
  const rounded = [0, 1, 2, 3].map((digits) => new Intl.NumberFormat('en', { maximumFractionDigits: digits }));
  function figure(value) {
    if (value === null || value === undefined || Number.isNaN(value)) return '';
    const size = Math.abs(value);
    if (size !== 0 && (size < 0.001 || size >= 1e12)) return value.toExponential(2);
    const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 3;
    return rounded[digits].format(value).replace(/,/g, '\u202f');
  }

  // Ticks of an axis: as short as they can be told apart.
  function tick(value) {
    const size = Math.abs(value);
    if (size >= 1e9) return `${+(value / 1e9).toPrecision(6)}G`;
    if (size >= 1e6) return `${+(value / 1e6).toPrecision(6)}M`;
    if (size >= 1e4) return `${+(value / 1e3).toPrecision(6)}k`;
    return String(+value.toPrecision(6));
  }

  function micros(value) {
    if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)} s`;
    if (value >= 1e3) return `${+(value / 1e3).toPrecision(3)} ms`;
    return `${+value.toPrecision(3)} \u00b5s`;
  }

  const canvas = make('canvas').getContext('2d');
  function wide(texts) {
    canvas.font = '12.5px system-ui, "Liberation Sans", sans-serif';
    return texts.reduce((most, text) => Math.max(most, canvas.measureText(text).width), 0);
  }

  // Those of the steps whose names have room beside each other.
  function thinned(names, room) {
    const each = Math.max(1, Math.ceil(((wide(names) + 10) * names.length) / Math.max(room, 1)));
    return names.filter((_, at) => at % each === 0);
  }

  // Draws anew when the width changes; `draw` gives what stands in the box.
  function chart(box, draw) {
    let last = 0;
    const again = () => {
      last = box.clientWidth;
      box.replaceChildren(...[draw(last)].flat().filter(Boolean));
    };
    if (window.ResizeObserver) new ResizeObserver(() => { if (box.clientWidth !== last) again(); }).observe(box);
    again();
    return again;
  }

  const colours = 8;
  const colour = (at) => `var(--s${at % colours})`;
  const dashes = ['', '7 4', '2 4', '10 3 2 3'];
  const dash = (at) => dashes[(Math.floor(at / colours) + at) % dashes.length];
  const symbols = ['circle', 'square', 'triangle', 'diamond', 'star', 'cross', 'wye', 'times'];
  // Behind the last colour come the first ones again, with other symbols.
  const symbol = (at) => symbols[(at + 3 * Math.floor(at / colours)) % symbols.length];

  // Buttons that hide a series and show it again, each with its line, its symbol or both. `hidden` is the set of those that are hidden.
  function legend(list, names, hidden, changed, { line: lined = true, dot = false } = {}) {
    list.replaceChildren(...names.map((name, at) => {
      const line = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
      line.setAttribute('width', 26);
      line.setAttribute('height', 12);
      line.setAttribute('aria-hidden', 'true');
      const shape = (name, attributes) => {
        const made = document.createElementNS('http://www.w3.org/2000/svg', name);
        for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
        made.style.stroke = colour(at);
        line.append(made);
      };
      if (lined) shape('line', { x1: 0, x2: 26, y1: 6, y2: 6, 'stroke-width': 3, 'stroke-dasharray': dash(at) });
      if (dot) shape('path', { d: d3.symbol(d3[`symbol${symbol(at)[0].toUpperCase()}${symbol(at).slice(1)}`], 44)(), transform: 'translate(13 6)', 'stroke-width': 2, fill: 'var(--ground)' });
      const button = make('button', { type: 'button', 'aria-pressed': String(!hidden.has(name)), title: 'hide or show' }, line, name);
      button.onclick = () => {
        if (!hidden.delete(name)) hidden.add(name);
        button.setAttribute('aria-pressed', String(!hidden.has(name)));
        changed();
      };
      return make('li', {}, button);
    }));
  }

  // The keys left and right go from step to step of a chart; what stands there is read out below it.
  function reader(box, out, count, tell) {
    let at = -1;
    box.tabIndex = 0;
    box.onkeydown = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || count() === 0) return;
      event.preventDefault();
      at = Math.min(Math.max(at + by, 0), count() - 1);
      out.textContent = tell(at);
    };
  }

  const page = 50;

  // columns: { name, unit, figure, wide, text(row), value(row), choices }; a row is a number below `count`.
  function table(box, { columns, count, taken = () => false, noun = 'rows' }) {
    let [sorted, down, shown] = [null, false, page];
    const wanted = new Map();
    const order = Uint32Array.from({ length: count }, (_, row) => row);
    const told = make('span', { class: 'note', role: 'status' });
    const search = make('input', { type: 'search', placeholder: 'any words' });
    const tools = make('div', { class: 'tools' }, make('label', {}, 'Filter', search));
    for (const column of columns.filter((column) => column.choices && column.choices.length > 1 && column.choices.length <= 100)) {
      const select = make('select', {}, new Option('all', '*'), ...column.choices.map((choice, at) => new Option(choice || '(own)', at)));
      select.onchange = () => {
        if (select.value === '*') wanted.delete(column);
        else wanted.set(column, column.choices[select.value]);
        fill();
      };
      tools.append(make('label', {}, column.name, select));
    }
    tools.append(told);
    const head = make('tr');
    const body = make('tbody');
    const more = make('button', { type: 'button' });
    const frame = make('div', { class: 'frame', tabindex: 0, role: 'region', 'aria-label': noun }, make('table', { class: 'rows' }, make('thead', {}, head), body));
    for (const column of columns) {
      const button = make('button', { type: 'button' }, column.name);
      if (column.unit) button.append(make('small', {}, ` ${column.unit}`));
      const cell = make('th', { class: column.figure ? 'figure' : null, scope: 'col', 'aria-sort': 'none' }, button);
      button.onclick = () => {
        down = sorted === column ? !down : Boolean(column.figure);
        sorted = column;
        for (const other of head.children) other.setAttribute('aria-sort', 'none');
        cell.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        sort();
        fill();
      };
      head.append(cell);
    }
    function sort() {
      const keys = Array.from({ length: count }, (_, row) => sorted.value(row));
      const missing = (key) => key === null || key === undefined || key === '';
      order.sort((a, b) => {
        const [x, y] = [keys[a], keys[b]];
        if (missing(x) || missing(y)) return missing(x) - missing(y) || a - b;
        const way = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), 'en', { numeric: true });
        return (down ? -way : way) || a - b;
      });
    }
    function fits(row, words) {
      for (const [column, choice] of wanted) if (column.text(row) !== choice) return false;
      return words.every((word) => columns.some((column) => column.match !== false && column.text(row).toLowerCase().includes(word)));
    }
    function fill() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const all = words.length || wanted.size ? order.filter((row) => fits(row, words)) : order;
      body.replaceChildren(...Array.from(all.subarray(0, shown), line));
      told.textContent = `${figure(all.length)} of ${figure(count)} ${noun}`;
      more.hidden = all.length <= shown;
      more.textContent = `${figure(Math.min(200, all.length - shown))} more of ${figure(all.length - shown)}`;
    }
    function line(row) {
      const made = make('tr', { class: taken(row) ? 'taken' : null });
      for (const column of columns) {
        const label = column.unit ? `${column.name}, ${column.unit}` : column.name;
        const text = column.text(row);
        const wide = column.wide || text.length > 18;
        const cell = make('td', { class: [column.figure && 'figure', wide && 'wide'].filter(Boolean).join(' ') || null, 'data-label': label });
        // A figure with its interval is cut between the two only.
        const words = () => text.split(' ').flatMap((word) => [make('span', { class: 'word' }, word), ' ']);
        cell.append(...(column.node ? [column.node(row)] : column.figure && wide ? words() : [text]));
        made.append(cell);
      }
      return made;
    }
    more.onclick = () => { shown += 200; fill(); };
    search.oninput = () => { shown = page; fill(); };
    // What is recommended stands first until the reader sorts.
    const first = order.findIndex((row) => taken(row));
    if (first > 0) {
      order.copyWithin(1, 0, first);
      order[0] = first;
    }
    box.replaceChildren(tools, frame, make('p', {}, more));
    fill();
  }

  return { data, element, make, figure, tick, micros, wide, thinned, chart, colour, dash, symbol, legend, reader, table };
})();
