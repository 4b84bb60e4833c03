// The live page of a limiter. Each event of its stream is a view (view.go) as JSON: texts for the elements with an
// attribute data-text, rows for the lists, and numbers for the charts.
'use strict';

(() => {
	const main = document.querySelector('main[data-live]');
	if (!main) return;
	const at = (id) => document.getElementById(id);
	const shownFor = 60; // seconds, in the charts
	const patience = 15000; // ms between two sentences for a screen reader
	const still = matchMedia('(prefers-reduced-motion: reduce)');

	let source = null; // the stream; null while there is none
	let paused = false;
	let points = []; // of the charts, oldest first
	let earlier = []; // grants before points, according to their records
	let latest = null;
	let drawn = 0;

	// The state, by color and by word.
	function tell(kind, text) {
		at('state').className = 'state ' + kind;
		at('state').textContent = text;
	}

	let said = 0;
	let last = '';
	function say(text, now) {
		if (text === last || (!now && Date.now() - said < patience)) return;
		said = Date.now();
		last = text;
		at('said').textContent = text;
	}

	function trouble(text) {
		at('trouble').hidden = !text;
		if (at('trouble').textContent !== text) at('trouble').textContent = text;
	}

	function open() {
		if (source || paused || document.hidden) return;
		tell('', 'Connecting');
		source = new EventSource(main.dataset.live);
		source.onmessage = (event) => take(JSON.parse(event.data));
		source.onerror = () => {
			if (source && source.readyState === EventSource.CLOSED) {
				close();
				pause(true);
				trouble('The server does not send updates: it may have too many viewers. Resume tries again.');
				return;
			}
			tell('off', 'Connecting again');
			say('The connection is lost. Connecting again.', true);
		};
	}

	function close() {
		if (source) source.close();
		source = null;
	}

	// While the page is paused, the server does not read the limiter for it.
	function pause(yes) {
		paused = yes;
		at('pause').textContent = yes ? 'Resume' : 'Pause';
		if (yes) {
			close();
			tell('', 'Paused');
			say('Paused.', true);
		} else {
			trouble('');
			say('Live again.', true);
			open();
		}
	}

	function take(view) {
		if (view.state === 'error') {
			tell('off', 'No reply');
			trouble(view.texts.summary);
			say(view.texts.summary, true);
			return;
		}
		if (view.state === 'ok' && view.pair === !at('charts')) {
			location.reload(); // it is another kind of limiter now
			return;
		}
		tell('on', 'Live, ' + view.texts.clock);
		trouble(view.pair ? '' : view.texts.summary);
		for (const place of document.querySelectorAll('[data-text]')) {
			const text = view.texts[place.dataset.text];
			if (text === undefined || place.textContent === text) continue;
			place.textContent = text;
			if (['unread', 'alarm', 'use'].includes(place.dataset.text)) place.hidden = !text;
		}
		rows('back', view.back, (row) => element('tr', {}, cell('th', row[0]), cell('td', row[1], 'n')));
		rows('keys', view.keys, (row) => {
			const name = element('th', { scope: 'row' }, element('code', {}, row[0]));
			return element('tr', {}, name, cell('td', row[1]), cell('td', row[2], 'n'));
		});
		rows('findings', view.findings, (found) => element('li', { class: found.remark ? 'remark' : '' },
			element('b', { class: 'badge' }, found.label), ' ',
			element('span', {}, found.what), ' ', element('span', { class: 'mend' }, found.mend)));
		at('well').hidden = view.findings.length > 0;
		say(view.texts.summary, false);
		latest = view;
		if (!view.pair) return;
		at('left').classList.toggle('used', view.saturated);
		// After a long time without a view, the records say when the grants happened.
		const since = points.length ? view.at - points[points.length - 1].at : shownFor * 1000;
		if (!view.elapsed_ms || (since > 1500 && since <= view.interval_ms)) {
			earlier.push(...grantsOf(view, since));
			view.elapsed_ms = 0;
		}
		points.push(view);
		points = points.filter((point) => point.at > view.at - shownFor * 1000);
		// Moving pictures change every 5 s only, for viewers who prefer less motion.
		if (!still.matches || Date.now() - drawn >= 5000) draw();
	}

	// The grants of the last ms before a view, in seconds, as far as its records reach.
	function grantsOf(view, ms) {
		const seconds = view.recent || [];
		return seconds
			.map(([go, others], i) => ({ at: view.at - (seconds.length - 1 - i) * 1000, ms: 1000, go, others }))
			.filter((one) => one.at - 500 > view.at - Math.min(ms, view.interval_ms));
	}

	// Rows are made again only if they have changed, so that a selection in them stays.
	const before = {};
	function rows(list, items, make) {
		const text = JSON.stringify(items);
		const body = document.querySelector('[data-list=' + list + ']');
		if (!body || before[list] === text) return;
		before[list] = text;
		body.replaceChildren(...(items || []).map(make));
	}

	function element(name, attributes, ...children) {
		const made = document.createElement(name);
		for (const [key, value] of Object.entries(attributes)) if (value) made.setAttribute(key, value);
		made.append(...children);
		return made;
	}

	function cell(name, text, kind) {
		return element(name, { class: kind, scope: name === 'th' ? 'row' : '' }, text);
	}

	// What follows draws, by attributes only.
	function shape(name, attributes, text) {
		const made = document.createElementNS('http://www.w3.org/2000/svg', name);
		for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
		if (text !== undefined) made.textContent = text;
		return made;
	}

	const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
	const full = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

	// The next of 1, 2, 5, 10, 20, 50, ...
	function round(most) {
		const power = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
		return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= most);
	}

	// An empty chart: lines with numbers up to most, and labels at its ends. It returns the scales.
	function chart(id, most, from, to) {
		const svg = at(id);
		const width = svg.clientWidth || 600;
		const height = Number(svg.getAttribute('height'));
		const area = { left: 40, right: width - 6, top: 10, bottom: height - 22 };
		area.x = (share) => area.left + share * (area.right - area.left);
		area.y = (n) => area.bottom - Math.min(n / most, 1) * (area.bottom - area.top);
		svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
		const marks = most >= 2 ? [0, most / 2, most] : [0, most];
		const lines = marks.flatMap((n) => [
			shape('line', { class: 'grid', x1: area.left, x2: area.right, y1: area.y(n), y2: area.y(n) }),
			shape('text', { x: area.left - 6, y: area.y(n) + 4, 'text-anchor': 'end' }, short.format(n)),
		]);
		svg.replaceChildren(...lines,
			shape('text', { x: area.left, y: height - 5 }, from),
			shape('text', { x: area.right, y: height - 5, 'text-anchor': 'end' }, to));
		area.add = (name, attributes) => svg.append(shape(name, attributes));
		return area;
	}

	// A bar: the grants of Go, and on top of them those of other clients.
	function bar(area, x, width, byGo, byOthers) {
		const low = area.y(byGo);
		const high = area.y(byGo + byOthers);
		if (byGo > 0) area.add('rect', { class: 'go', x, width, y: low, height: area.bottom - low });
		// Hollow, with its line inside: it differs by more than the color.
		if (byOthers > 0) {
			area.add('rect', {
				class: 'others', x: x + 1, width: Math.max(width - 2, 1), y: high + 1, height: Math.max(low - high - 2, 1),
			});
		}
	}

	function draw() {
		if (!latest || !latest.pair) return;
		drawn = Date.now();
		at('charts').hidden = false;
		at('meter').setAttribute('width', latest.share + '%');
		const share = (time) => 1 - (latest.at - time) / (shownFor * 1000);
		drawRemaining(share);
		drawGrants(share);
		drawWindow();
	}

	function drawRemaining(share) {
		const most = Math.max(...points.map((point) => Math.max(point.rate, point.remaining)), 1);
		const area = chart('remaining', most, shownFor + ' s ago', 'now');
		let path = '';
		points.forEach((point, i) => {
			const x = area.x(share(point.at)).toFixed(1);
			const y = area.y(point.remaining).toFixed(1);
			path += i === 0 ? `M${x} ${y}` : `H${x}V${y}`;
		});
		const first = area.x(share(points[0].at)).toFixed(1);
		area.add('path', { class: 'area', d: `${path}V${area.bottom}H${first}Z` });
		area.add('path', { class: 'line', d: path });
		const all = points.map((point) => point.remaining);
		at('alt-remaining').textContent = `lowest ${full.format(Math.min(...all))}, ` +
			`highest ${full.format(Math.max(...all))}, now ${full.format(latest.remaining)}`;
	}

	function drawGrants(share) {
		earlier = earlier.filter((one) => one.at > latest.at - shownFor * 1000);
		const grants = earlier.concat(points.filter((point) => point.elapsed_ms > 0).map((point) => ({
			at: point.at, ms: point.elapsed_ms,
			go: point.by_go * 1000 / point.elapsed_ms, others: point.by_others * 1000 / point.elapsed_ms,
		})));
		const most = Math.max(...grants.map((one) => one.go + one.others), 0);
		const area = chart('grants', round(most), shownFor + ' s ago', 'now');
		for (const one of grants) {
			const left = Math.max(area.x(share(one.at - one.ms)), area.left);
			bar(area, left, Math.max(area.x(share(one.at)) - left - 1, 1), one.go, one.others);
		}
		const mean = (of) => full.format(grants.reduce((sum, one) => sum + of(one), 0) / Math.max(grants.length, 1));
		at('alt-grants').textContent = `on average ${mean((one) => one.go)} by Go, ${mean((one) => one.others)} by others`;
	}

	function drawWindow() {
		const bars = latest.bars || [];
		const most = Math.max(...bars.map((one) => one[0] + one[1]), 0);
		const area = chart('window', round(most), latest.texts.interval + ' ago, back next', 'now');
		bars.forEach((one, i) => {
			const left = area.x(i / bars.length);
			bar(area, left, area.x((i + 1) / bars.length) - left - 1, one[0], one[1]);
		});
		const sum = (of) => full.format(bars.reduce((all, one) => all + one[of], 0));
		at('alt-window').textContent = `${sum(0)} permits taken by Go, ${sum(1)} by others`;
	}

	at('pause').hidden = false;
	at('pause').addEventListener('click', () => pause(!paused));
	addEventListener('resize', draw);
	document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
	addEventListener('pagehide', close);
	addEventListener('pageshow', open);
	open();
})();
