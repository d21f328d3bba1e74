// The page of nbs. The output of sessions, and their names, are only ever text here.
"use strict";

const find = id => document.getElementById(id);
const wall = find("wall"), large = find("large"), line = find("line");

// ---- Who we are -----------------------------------------------------------

// The token comes behind the # of the address, which a browser sends nobody. It is kept for
// this tab, and nothing is to show it: not the address bar, nor the history.
const isToken = text => /^[0-9a-f]{32}$/.test(text);

function takeToken() {
	const given = location.hash.slice(1);
	if (isToken(given)) {
		sessionStorage.setItem("token", given);
		history.replaceState(null, "", "#/");
	}
}

function ask(path, options = {}) {
	const headers = { Authorization: "Bearer " + sessionStorage.getItem("token") };
	return fetch(path, { ...options, headers, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" });
}

// ---- What there is --------------------------------------------------------

// By handle: { handle, about, screen, rows, tile }, rows by their numbers.
const sessions = new Map();
// The session that is shown large, by its handle; and up to where the wall is known.
let focus = "", known = "";
const changed = new Set();
let reordered = true;

function heed(message) {
	if (message.sessions) {
		const there = new Set(message.sessions);
		for (const handle of [...sessions.keys()]) if (!there.has(handle)) remove(handle);
		if (focus && !there.has(focus)) vanish();
	}
	if (message.gone) remove(message.gone);
	if (!message.handle) return;
	let session = sessions.get(message.handle);
	if (!session) sessions.set(message.handle, session = { handle: message.handle, rows: new Map() });
	if (message.about) {
		const before = session.about;
		session.about = message.about;
		if (!before || before.activity !== message.about.activity) {
			reordered = true;
			if (before && before.activity !== "unknown" && message.about.activity === "waiting") say(label(session) + " waits for input");
		}
	}
	if (message.screen) {
		const { at, fresh } = message.screen;
		const rows = new Map();
		for (const number of at) rows.set(number, fresh[number] ?? session.rows.get(number) ?? []);
		session.rows = rows;
		session.screen = message.screen;
	}
	changed.add(session);
	plan();
}

function remove(handle) {
	const session = sessions.get(handle);
	if (!session) return;
	session.tile?.root.remove();
	if (handle === focus) vanish();
	sessions.delete(handle);
	changed.delete(session);
	reordered = true;
	plan();
}

// The one that is shown large is there no more.
function vanish() {
	put(find("state"), "has been removed");
	find("typing").hidden = true;
	find("rows").querySelector(".cursor")?.classList.remove("cursor");
}

const label = session => session.about?.name || session.handle;

// ---- Hearing of it --------------------------------------------------------

let hearing = null, pause = 0, again = 0;

// Asks for what has changed since what we know, and goes on with what changes from now on.
async function listen() {
	clearTimeout(again);
	hearing?.abort();
	const ours = hearing = new AbortController();
	const wanted = focus;
	try {
		const query = [known && "since=" + known, wanted && "focus=" + wanted].filter(Boolean).join("&");
		const answer = await ask("events?" + query, { signal: ours.signal });
		if (answer.status === 401) {
			tell("The token is missing or outdated. Open the address that nbs-page printed.");
			return;
		}
		if (!answer.ok) throw new Error((await answer.json()).error);
		tell("");
		pause = 0;
		const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
		let text = "";
		for (;;) {
			const { value, done } = await reader.read();
			if (done || ours.signal.aborted) break;
			text += value;
			const events = text.split("\n\n");
			text = events.pop();
			for (const event of events) {
				const [, id, data] = event.match(/^(?:id: (\S+)\n)?data: (.*)$/);
				heed(JSON.parse(data));
				if (id && !wanted) known = id;
			}
		}
	} catch (error) {
		if (ours.signal.aborted) return;
	}
	if (hearing === ours) {
		pause = Math.min(pause * 2 || 250, 5000);
		if (pause > 250) tell("nbs-page does not respond. The page may be outdated.");
		again = setTimeout(listen, pause);
	}
}

// ---- Drawing --------------------------------------------------------------

let planned = false;

function plan() {
	if (planned) return;
	planned = true;
	requestAnimationFrame(() => {
		planned = false;
		draw();
	});
}

function draw() {
	if (focus) {
		const session = sessions.get(focus);
		if (session && changed.delete(session)) drawLarge(session);
		if (reordered) drawNext();
		return;
	}
	for (const session of changed) {
		if (!session.about) continue;
		session.tile ??= makeTile(session);
		drawAbout(session);
		if (session.tile.isSeen) drawTile(session);
		else session.tile.isStale = true;
	}
	changed.clear();
	if (reordered) arrange();
}

const palette = index => {
	if (index < 16) return `var(--c${index})`;
	const grey = 8 + 10 * (index - 232), part = step => step ? 55 + 40 * step : 0;
	if (index > 231) return `rgb(${grey} ${grey} ${grey})`;
	index -= 16;
	return `rgb(${part(Math.floor(index / 36))} ${part(Math.floor(index / 6) % 6)} ${part(index % 6)})`;
};
const colour = (text, usual) => text === "" ? usual : text[0] === "#" ? text : palette(+text);
const UNDERLINES = ["", "solid", "double", "wavy", "dotted", "dashed"];

// How a style is drawn: [property, value] each.
const styles = new Map();

function styleOf(text) {
	let style = styles.get(text);
	if (style) return style;
	let [ink, paper, bits, line] = text.split(",");
	bits = +bits;
	ink = colour(ink, "var(--ink)");
	paper = colour(paper, "var(--paper)");
	if (bits & 16) [ink, paper] = [paper, ink];
	style = [];
	if (bits & 32) ink = paper;
	if (bits & 2) ink = `color-mix(in srgb, ${ink} 60%, ${paper})`;
	if (ink !== "var(--ink)") style.push(["color", ink]);
	if (paper !== "var(--paper)") style.push(["background", paper]);
	if (bits & 1) style.push(["fontWeight", "bold"]);
	if (bits & 4) style.push(["fontStyle", "italic"]);
	const lines = [[bits >> 8 & 7, "underline"], [bits & 64, "line-through"], [bits & 128, "overline"]];
	const drawn = lines.filter(([has]) => has).map(([, name]) => name).join(" ");
	if (drawn) style.push(["textDecoration", drawn + " " + (UNDERLINES[bits >> 8 & 7] || "solid") + " " + colour(line || "", "")]);
	if (styles.size > 5000) styles.clear();
	styles.set(text, style);
	return style;
}

// The targets that a program's links may have: none that acts on this page, or on this machine.
const SAFE_LINK = /^(https?:\/\/|mailto:)/i;

function makeRow(spans, hasLinks) {
	const row = document.createElement("span");
	row.className = "row";
	for (const span of spans) {
		if (typeof span === "string") {
			row.append(span);
			continue;
		}
		const [text, style, cells, link] = span;
		const isLink = hasLinks && SAFE_LINK.test(link || "");
		const part = document.createElement(isLink ? "a" : "span");
		part.textContent = text;
		if (isLink) Object.assign(part, { href: link, title: link, target: "_blank", rel: "noopener noreferrer" });
		for (const [property, value] of styleOf(style)) part.style[property] = value;
		if (cells) {
			part.className = "cells";
			part.style.width = cells + "ch";
		}
		row.append(part);
	}
	return row;
}

// Makes `place` show the rows of a session; those that it shows already stay, wherever they go.
function drawRows(place, session, hasLinks) {
	const { at, cursor } = session.screen;
	const before = new Map();
	for (const row of place.querySelectorAll(".row")) {
		const rows = before.get(row.number);
		if (rows) rows.push(row);
		else before.set(row.number, [row]);
	}
	let next = place.firstChild;
	for (const number of at) {
		let row = before.get(number)?.shift();
		if (!row) {
			row = makeRow(session.rows.get(number), hasLinks);
			row.number = number;
		}
		if (row === next) next = next.nextSibling;
		else place.insertBefore(row, next);
	}
	while (next) {
		const gone = next;
		next = next.nextSibling;
		gone.remove();
	}
	if (cursor && cursor[0] < at.length && session.about?.state === "alive") {
		const mark = document.createElement("i");
		mark.className = "cursor";
		mark.style.top = `calc(${cursor[0]}em * var(--line))`;
		mark.style.left = cursor[1] + "ch";
		place.append(mark);
	}
}

// ---- The wall -------------------------------------------------------------

const seen = new IntersectionObserver(entries => {
	for (const { target, isIntersecting } of entries) {
		const session = sessions.get(target.handle);
		if (!session?.tile) continue;
		session.tile.isSeen = isIntersecting;
		if (isIntersecting && session.tile.isStale) drawTile(session);
	}
}, { rootMargin: "200px" });

function makeTile(session) {
	const root = find("tile").content.firstElementChild.cloneNode(true);
	const part = name => root.querySelector("." + name);
	root.href = "#/" + session.handle;
	root.handle = session.handle;
	seen.observe(root);
	return { root, name: part("name"), state: part("state"), rows: part("rows"), foot: part("foot"), isSeen: false, isStale: true };
}

function drawTile(session) {
	session.tile.isStale = false;
	if (!session.screen) return;
	const { rows } = session.tile;
	rows.style.setProperty("--cols", session.screen.cols);
	rows.style.setProperty("--lines", session.screen.rows);
	drawRows(rows, session);
}

function drawAbout(session) {
	const { root, name, state, foot } = session.tile, { about } = session;
	const word = describe(session, state);
	root.className = "tile " + about.activity;
	put(name, label(session));
	put(foot, about.question || about.title || about.command);
	const text = `${label(session)}, ${word}, ${about.command}`;
	if (root.getAttribute("aria-label") !== text) root.setAttribute("aria-label", text);
}

const put = (element, text) => {
	if (element.textContent !== text) element.textContent = text;
};

// The activity of a session, in a word, and since when.
function describe(session, element) {
	const { activity, since, receipt } = session.about;
	let { word } = session.about, kind = { done: "good", failed: "bad" }[word] ?? activity;
	if (activity === "dead") {
		const code = receipt?.exit_code;
		kind = code === 0 ? "good" : "bad";
		word = receipt?.timed_out ? "timed out" : receipt?.signal ?? (code === 0 ? "done" : code > 0 ? "exit " + code : "ended");
	}
	if (session.about.terminal === "secret" && word === "waiting") word = "waits for a secret";
	const from = activity === "dead" ? receipt?.ended : since;
	const text = from ? word + " · " + age(Date.now() / 1000 - from) : word;
	element.className = "state " + kind;
	put(element, text);
	return text;
}

function age(seconds) {
	if (seconds < 60) return "now";
	if (seconds < 3600) return Math.floor(seconds / 60) + "m";
	if (seconds < 86400) return Math.floor(seconds / 3600) + "h";
	return Math.floor(seconds / 86400) + "d";
}

const GROUPS = { waiting: 0, failed: 1, done: 1, working: 2, idle: 2, unknown: 2, dead: 3 };
const COUNTS = [["waiting", "waiting"], ["failed", "failed"], ["done", "done"], ["working", "working"], ["idle", "idle"], ["dead", "ended"]];

// Those that wait come first, then those that are done, and those that have ended last; all others stay where they are.
function inOrder() {
	const started = session => session.about.started ?? 0;
	const ended = session => session.about.receipt?.ended ?? 0;
	return [...sessions.values()].filter(session => session.about).sort((a, b) =>
		GROUPS[a.about.activity] - GROUPS[b.about.activity]
		|| (a.about.activity === "dead" ? ended(b) - ended(a) : started(a) - started(b))
		|| (a.handle < b.handle ? -1 : 1));
}

const still = matchMedia("(prefers-reduced-motion: reduce)");

function arrange() {
	reordered = false;
	const all = inOrder(), wanted = find("filter").value.trim().toLowerCase();
	const fits = ({ about, handle }) =>
		[about.name, about.command, about.title, about.word, handle].join(" ").toLowerCase().includes(wanted);
	const shown = all.filter(session => session.tile && fits(session)).map(session => session.tile.root);
	const before = new Map();
	if (!still.matches && shown.length < 60) {
		for (const root of wall.children) before.set(root, root.getBoundingClientRect());
	}
	const here = new Set(shown), focused = document.activeElement;
	for (const root of [...wall.children]) if (!here.has(root)) root.remove();
	let next = wall.firstChild;
	for (const root of shown) {
		if (root === next) next = next.nextSibling;
		else wall.insertBefore(root, next);
	}
	if (here.has(focused)) focused.focus({ preventScroll: true });
	for (const [root, from] of before) {
		const to = root.getBoundingClientRect();
		if (here.has(root) && (from.x !== to.x || from.y !== to.y)) {
			const move = { transform: `translate(${from.x - to.x}px, ${from.y - to.y}px)` };
			root.animate([move, { transform: "none" }], { duration: 200, easing: "ease-out" });
		}
	}
	wall.dataset.empty = all.length ? "No session matches the filter." : "No sessions yet.\nnbs-ts create --name=build make";
	drawCounts(all);
}

function drawCounts(all) {
	const items = COUNTS.map(([activity, word]) => {
		const count = all.filter(session => session.about.activity === activity).length;
		const item = document.createElement("li"), number = document.createElement("b");
		number.textContent = count;
		item.append(number, " " + word);
		item.className = count ? activity : "";
		return [count, item];
	});
	find("counts").replaceChildren(...items.filter(([count]) => count).map(([, item]) => item));
	const waiting = items[0][0];
	document.title = waiting ? `(${waiting}) nbs` : "nbs";
}

// ---- One session ----------------------------------------------------------

let atEnd = true, hasHistory = false;

function drawLarge(session) {
	const { about, screen } = session;
	if (about) {
		put(find("name"), label(session));
		put(find("command"), about.title ? `${about.title} — ${about.command}` : about.command);
		describe(session, find("state"));
		const secret = about.terminal === "secret", kind = secret ? "password" : "text";
		// A text that was meant for a secret prompt is never shown, nor typed as a line.
		if (line.type === "password" && !secret) line.value = "";
		line.type = kind;
		line.placeholder = secret ? "Secret (not shown)" : "Type a line";
		find("typing").hidden = about.state === "dead";
		drawChoices(about);
		drawReceipt(about.receipt);
	}
	drawCommands();
	drawPorts();
	if (!screen) return;
	fit(session);
	drawRows(find("rows"), session, true);
	if (atEnd) large.scrollTop = large.scrollHeight;
}

// As large as there is room for, and no larger than can be read well.
function fit(session) {
	const { cols, rows } = session.screen, style = getComputedStyle(large);
	const width = large.clientWidth - parseFloat(style.paddingLeft) * 2, height = large.clientHeight - parseFloat(style.paddingTop) * 2;
	const size = Math.min(width / cols / advance, Math.max(height / rows / 1.18, 13));
	const text = Math.max(7, Math.min(size, 22)).toFixed(2) + "px";
	const screen = large.firstElementChild;
	if (screen.style.fontSize !== text) screen.style.fontSize = text;
}

// Buttons for the answers to a question. They stay as long as the question does, so that a press hits.
function drawChoices({ choices, question_id }) {
	const list = find("choices"), id = question_id ?? "";
	if (list.dataset.id === id) return;
	list.dataset.id = id;
	list.replaceChildren(...(id ? choices : []).map((choice, at) => {
		const button = document.createElement("button");
		button.type = "button";
		button.textContent = choice;
		button.addEventListener("click", () => type("answer", id + "\n" + (at + 1)));
		return button;
	}));
}

function drawReceipt(receipt) {
	const list = find("receipt");
	list.hidden = !receipt;
	if (!receipt || list.of === receipt.ended) return;
	list.of = receipt.ended;
	const by = { self: "by itself", kill: "by a kill", timeout: "by its timeout", idle_timeout: "by its idle timeout", owner: "with its owner", unknown: "unknown how" };
	const time = seconds => seconds ? new Date(seconds * 1000).toLocaleString() : "unknown";
	const facts = [
		["Exit code", receipt.exit_code < 0 ? "unknown" : receipt.signal ? `${receipt.exit_code} (${receipt.signal})` : receipt.exit_code],
		["Ended", by[receipt.ended_by] ?? receipt.ended_by],
		["Started", time(receipt.started)],
		["Ended at", time(receipt.ended)],
		["Took", receipt.duration_ms === null ? "unknown" : took(receipt.duration_ms / 1000)],
		["Printed", size(receipt.output_bytes) + (receipt.drained ? "" : ", not all of it read")],
	];
	list.replaceChildren(...facts.map(([name, value]) => {
		const item = document.createElement("div"), term = document.createElement("dt"), fact = document.createElement("dd");
		term.textContent = name;
		fact.textContent = value;
		item.append(term, fact);
		return item;
	}));
}

function took(seconds) {
	if (seconds < 60) return seconds.toFixed(seconds < 10 ? 1 : 0) + " s";
	const minutes = Math.floor(seconds / 60), two = number => String(number).padStart(2, "0");
	return minutes < 60 ? `${minutes}:${two(Math.floor(seconds % 60))} min` : `${Math.floor(minutes / 60)}:${two(minutes % 60)} h`;
}

function size(bytes) {
	const units = ["bytes", "KB", "MB", "GB", "TB"];
	let at = 0;
	while (bytes >= 1000 && at < units.length - 1) (bytes /= 1000, at++);
	return (at && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)) + " " + units[at];
}

function drawNext() {
	reordered = false;
	const all = inOrder();
	const next = all.find(session => session.about.activity === "waiting" && session.handle !== focus);
	find("next").hidden = !next;
	if (next) find("next").href = "#/" + next.handle;
	drawCounts(all);
}

// The scrollback is requested when somebody begins to look at it.
async function drawHistory() {
	if (hasHistory || !focus) return;
	hasHistory = true;
	const of = focus;
	try {
		const answer = await ask(`sessions/${of}/scrollback`);
		const lines = answer.ok ? await answer.json() : [];
		if (of !== focus) return;
		const fromEnd = large.scrollHeight - large.scrollTop;
		find("history").replaceChildren(...lines.map(spans => makeRow(spans, true)));
		large.scrollTop = large.scrollHeight - fromEnd;
	} catch {
		hasHistory = false;
	}
}

// ---- Its commands ---------------------------------------------------------

const commands = find("commands"), list = commands.querySelector("ol");
let answered = "";

// Calls `act` when the open session is drawn, and at most once in `pause`; after the last drawing, too.
function seldom(pause, act) {
	let waits = 0, again = false;
	const draw = () => {
		if (waits) {
			again = true;
			return;
		}
		if (focus) act(focus);
		waits = setTimeout(() => {
			waits = 0;
			if (!again) return;
			again = false;
			draw();
		}, pause);
	};
	return draw;
}

const drawCommands = seldom(1000, of => commands.open && askForCommands(of));
const drawPorts = seldom(2000, askForPorts);

async function askForCommands(of) {
	try {
		const answer = await ask(`sessions/${of}/commands`), text = await answer.text();
		if (!answer.ok || of !== focus || text === answered) return;
		answered = text;
		// Open outputs stay open.
		const outputs = new Map([...list.children].map(item => [item.number, item.querySelector(".output")]));
		list.replaceChildren(...JSON.parse(text).map(row => makeCommand(row, of, outputs.get(row[0]))));
		if (!list.children.length) list.textContent = "No shell has reported a command.";
	} catch {}
}

async function askForPorts(of) {
	try {
		const answer = await ask(`sessions/${of}/ports`), rows = answer.ok ? await answer.json() : [], place = find("ports");
		if (of !== focus || place.dataset.shown === of + rows) return;
		place.dataset.shown = of + rows;
		place.replaceChildren(...rows.map(row => makePort(row[0], of)));
	} catch {}
}

function makePort(port, of) {
	const link = make("a", "button", ":" + port);
	link.ariaLabel = "Port " + port;
	link.target = "_blank";
	link.rel = "noreferrer";
	link.href = `http://${location.hostname}:${port}/`;
	// A port of another machine has to be forwarded first.
	if (of.includes(":")) link.onclick = async event => {
		event.preventDefault();
		// Only a click may open a page, and the answer may come later.
		const opened = open("about:blank");
		if (!opened) return;
		opened.opener = null;
		const answer = await ask(`sessions/${of}/reach`, { method: "POST", body: port }).catch(() => ({}));
		const { port: here, error } = answer.ok ? await answer.json() : {};
		if (here) return opened.location = `http://${location.hostname}:${here}/`;
		opened.close();
		tell(error ?? "The port cannot be reached.");
	};
	return link;
}

function make(name, kind, text) {
	const element = document.createElement(name);
	element.className = kind;
	element.textContent = text;
	return element;
}

// By a field that is there for that: the clipboard itself is for pages of https only.
function makeCopy(what, text) {
	const button = make("button", "copy", "Copy");
	button.ariaLabel = "Copy the " + what;
	button.onclick = () => {
		const field = document.createElement("textarea");
		field.value = text;
		document.body.append(field);
		field.select();
		put(button, document.execCommand("copy") ? "Copied" : "Not copied");
		field.remove();
		button.focus();
	};
	return button;
}

function makeCommand([number, code, took, folder, command], of, output) {
	const item = make("li", ["0", "-"].includes(code) ? "" : "bad", ""), button = make("button", "command", "");
	item.number = number;
	button.append(...[number, took, code].map(text => make("span", "", text)), make("b", "", command));
	button.title = folder;
	button.ariaLabel = `${command}, ${code === "-" ? "no exit code" : "exit code " + code}`;
	button.onclick = async () => {
		const shown = item.querySelector(".output");
		if (shown) return shown.remove();
		const answer = await ask(`sessions/${of}/output`, { method: "POST", body: number });
		const text = answer.ok ? (await answer.json()).map(row => row.join("")).join("\n") : "";
		const made = make("div", "output", "");
		made.append(make("pre", "", text || (answer.ok ? "(no output)" : "The output is gone.")));
		if (text) made.append(makeCopy("output", text + "\n"));
		item.append(made);
	};
	item.append(button, makeCopy("command", command));
	if (output) item.append(output);
	return item;
}

commands.addEventListener("toggle", () => commands.open && askForCommands(focus));

const lookBack = () => {
	if (atEnd) hasHistory = false;
	drawHistory();
};
let looking = 0;
large.addEventListener("wheel", event => {
	// A turn of the wheel is many events.
	if (event.deltaY >= 0 || event.timeStamp - looking < 500) return;
	looking = event.timeStamp;
	lookBack();
}, { passive: true });
large.addEventListener("touchstart", lookBack, { passive: true });
large.addEventListener("scroll", () => {
	atEnd = large.scrollHeight - large.scrollTop - large.clientHeight < 8;
}, { passive: true });

new ResizeObserver(() => {
	const session = sessions.get(focus);
	if (!session?.screen) return;
	fit(session);
	if (atEnd) large.scrollTop = large.scrollHeight;
}).observe(large);

// ---- Typing ---------------------------------------------------------------

// By handle, one thing after another, what is alike together: another machine may take its time.
const unsent = new Map();

function type(what, text) {
	const queue = unsent.get(focus), last = queue?.at(-1);
	if (last?.what === what && what !== "line" && what !== "secret" && what !== "answer") last.text += (what === "keys" ? " " : "") + text;
	else if (queue) queue.push({ what, text });
	else send(focus, [{ what, text }]);
}

async function send(to, queue) {
	unsent.set(to, queue);
	while (queue.length) {
		const { what, text } = queue.shift();
		try {
			const answer = await ask(`sessions/${to}/${what}`, { method: "POST", body: text });
			if (answer.status !== 204) {
				const { error, typed } = await answer.json();
				if (typed === false) tell("Not typed: the secret prompt is gone.");
				else if (error) tell((answer.status === 502 ? "Perhaps not typed: " : "Not typed: ") + error + ".");
			} else tell("");
		} catch {
			tell("Perhaps not typed: nbs-page does not respond.");
			queue.length = 0;
		}
	}
	unsent.delete(to);
}

find("typing").addEventListener("submit", event => {
	event.preventDefault();
	const asked = sessions.get(focus)?.about?.question_id;
	if (line.type === "password") type("secret", line.value);
	else if (asked && line.value) type("answer", asked + "\n" + line.value);
	else type("line", line.value);
	line.value = "";
	atEnd = true;
});

find("keys").addEventListener("click", ({ target }) => {
	if (target.dataset.key) type("keys", target.dataset.key);
});
// The thumb that presses a key keeps the keyboard that is open.
find("keys").addEventListener("pointerdown", event => event.preventDefault());

const NAMES = {
	Enter: "Enter", Tab: "Tab", Escape: "Escape", Backspace: "BSpace", Delete: "Delete", Insert: "Insert", Home: "Home", End: "End",
	PageUp: "PageUp", PageDown: "PageDown", ArrowUp: "Up", ArrowDown: "Down", ArrowLeft: "Left", ArrowRight: "Right",
};

large.addEventListener("keydown", event => {
	const { key, ctrlKey, altKey, metaKey, shiftKey } = event;
	const isLetter = [...key].length === 1;
	// The browser keeps its own keys: to leave by Shift+Tab, to copy and to paste.
	if (shiftKey && key === "PageUp") lookBack();
	if (metaKey || event.isComposing || key === "Tab" && shiftKey || shiftKey && /^Page/.test(key)) return;
	if (ctrlKey && (key === "v" || shiftKey || key === "c" && !getSelection().isCollapsed)) return;
	const name = NAMES[key] ?? (/^F\d+$/.test(key) && key !== "F5" && key !== "F12" ? key : isLetter ? key : "");
	if (!name || key === " " && ctrlKey) return;
	event.preventDefault();
	atEnd = true;
	if (isLetter && !ctrlKey && !altKey) return type("text", key);
	type("keys", (ctrlKey ? "C-" : "") + (altKey ? "M-" : "") + (shiftKey && !isLetter ? "S-" : "") + (isLetter && ctrlKey ? name.toLowerCase() : name));
});

large.addEventListener("paste", event => {
	event.preventDefault();
	const text = event.clipboardData.getData("text/plain");
	if (text) type("paste", text);
});

// ---- Where we are ---------------------------------------------------------

let notice = 0;

function tell(text) {
	clearTimeout(notice);
	put(find("notice"), text);
	find("notice").hidden = !text;
	if (/typed/.test(text)) notice = setTimeout(tell, 5000, "");
}

const say = text => put(find("news"), text);

function go() {
	takeToken();
	const wanted = location.hash.match(/^#\/((?:[\w.-]+:)?[0-9a-f]{8})$/)?.[1] ?? "";
	const before = focus;
	focus = wanted;
	document.body.classList.toggle("large", !!focus);
	find("session").hidden = !focus;
	if (focus !== before) line.value = "";
	atEnd = true;
	hasHistory = false;
	list: if (focus) {
		find("history").replaceChildren();
		find("rows").replaceChildren();
		if (focus !== before) {
			answered = "";
			list.replaceChildren();
			find("ports").replaceChildren();
			find("ports").dataset.shown = "";
			if (focus) askForPorts(focus);
		}
		put(find("name"), "");
		find("receipt").hidden = true;
		const session = sessions.get(focus);
		if (!session) break list;
		drawLarge(session);
		drawNext();
		drawHistory();
	} else {
		reordered = true;
		sessions.forEach(session => changed.add(session));
		plan();
		if (before) sessions.get(before)?.tile?.root.focus();
	}
	if (focus && matchMedia("(pointer: fine)").matches) large.focus({ preventScroll: true });
	listen();
}

// A page that nobody sees asks for nothing, and goes on where it was.
let asleep = 0;
document.addEventListener("visibilitychange", () => {
	clearTimeout(asleep);
	if (document.hidden) {
		asleep = setTimeout(() => {
			const ours = hearing;
			hearing = null;
			clearTimeout(again);
			ours?.abort();
		}, 10000);
	} else if (!hearing) listen();
});
addEventListener("online", () => listen());
addEventListener("hashchange", go);
addEventListener("pageshow", event => event.persisted && listen());

find("filter").addEventListener("input", () => {
	reordered = true;
	plan();
});

document.addEventListener("keydown", event => {
	if (event.target.matches("input, #large") || event.ctrlKey || event.altKey || event.metaKey) return;
	if (event.key === "/" && !focus) find("filter").focus();
	else if (event.key === "n" && !focus) wall.querySelector(".waiting")?.click();
	else if (event.key === "Escape" && focus) find("back").click();
	else return;
	event.preventDefault();
});

setInterval(() => {
	if (document.hidden) return;
	for (const session of sessions.values()) if (session.tile && !focus) drawAbout(session);
	if (focus && sessions.get(focus)?.about) describe(sessions.get(focus), find("state"));
}, 30000);

// How wide a character is, as a part of the font's size.
let advance = 0.602;

function measure() {
	const probe = document.createElement("span");
	probe.className = "screen";
	probe.style.cssText = "position:absolute;visibility:hidden;font-size:100px;white-space:pre";
	probe.textContent = "0".repeat(100);
	document.body.append(probe);
	advance = probe.getBoundingClientRect().width / 10000;
	probe.remove();
	document.documentElement.style.setProperty("--advance", advance);
}

measure();
go();
