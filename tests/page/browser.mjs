// Does with nbs-page what people do, in a browser.
//
// Usage: browser.mjs LINKS CHROMIUM GOLDEN [PICTURES]
//
// LINKS is the folder with nbs-ts and nbs-page, GOLDEN the one with what the page looks like. Every wait here is for something to be seen; what
// does not come within the time of a wait fails.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [links, executablePath, golden, pictures] = process.argv.slice(2);
const TIMEOUT = 30_000;

const ts = (...words) => execFileSync(`${links}/nbs-ts`, words, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim();
const create = (name, command, ...options) => ts("create", "--no-helper", `--name=${name}`, ...options, command);

async function serve(...words) {
    const server = spawn(`${links}/nbs-page`, words, { stdio: ["ignore", "pipe", "inherit"] });
    const ended = new Promise(resolve => server.on("exit", resolve));
    process.on("exit", () => server.kill());
    for await (const url of createInterface({ input: server.stdout })) {
        const stop = async () => {
            server.kill("SIGTERM");
            assert.equal(await ended, 0);
        };
        return { url, base: url.split("#")[0], stop };
    }
    throw new Error("nbs-page has printed no address");
}

// Another machine is another home here.
mkdirSync("there");
ts("machine", "add", "box", "env", `HOME=${process.cwd()}/there`, "sh");
let server = await serve("--on=all");
const browser = await chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
const faults = [];

// A page of its own, whose every complaint is a fault, but that nobody answered.
async function visit(options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    context.setDefaultTimeout(TIMEOUT);
    const page = await context.newPage();
    page.on("pageerror", error => faults.push(error.message));
    page.on("console", message => {
        // What is asked of a session that has gone meanwhile is not found.
        const hasGone = / 404 /.test(message.text()) && message.location().url.includes("/sessions/");
        const isLost = hasGone || /ERR_(CONNECTION|INCOMPLETE|NETWORK|EMPTY)/.test(message.text());
        if (message.type() === "error" && !isLost) faults.push(message.text());
    });
    page.on("dialog", dialog => faults.push(dialog.message()));
    page.on("request", request => {
        const url = request.url();
        if (!url.startsWith(server.base) && !url.startsWith("data:")) faults.push(`asks elsewhere: ${url}`);
        if (url.includes(server.url.split("#")[1])) faults.push(`shows the token: ${url}`);
        if (request.headers().referer?.includes("#")) faults.push("sends a referrer");
    });
    await page.goto(server.url);
    return page;
}

const text = (page, part) => page.waitForFunction(part => document.querySelector("#rows").innerText.includes(part), part);
const tile = (page, name) => page.locator(".tile", { has: page.locator(`.name:text-is("${name}")`) });
const names = page => page.locator(".tile .name").allInnerTexts();
const openSession = async (page, name) => {
    await tile(page, name).click();
    await page.locator("#name", { hasText: name }).waitFor();
};
const typeLine = async (page, line) => {
    await page.locator("#line").fill(line);
    await page.getByRole("button", { name: "Send" }).click();
};

// Compares a picture with the one of that name beside this file. Another release of the browser may
// draw the edges of letters otherwise, and no more.
async function looksLike(name, picture) {
    const file = `${golden}/${name}.png`;
    if (process.env.NBS_BLESS) return writeFileSync(file, picture);
    const page = await browser.newPage();
    const share = await page.evaluate(async pictures => {
        const [one, other] = await Promise.all(pictures.map(async picture => {
            const image = new Image();
            image.src = "data:image/png;base64," + picture;
            await image.decode();
            const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
            canvas.drawImage(image, 0, 0);
            return canvas.getImageData(0, 0, image.width, image.height);
        }));
        if (one.width !== other.width || one.height !== other.height) return 1;
        const differs = one.data.filter((part, at) => Math.abs(part - other.data[at]) > 48);
        return differs.length / one.data.length;
    }, [readFileSync(file), picture].map(bytes => bytes.toString("base64")));
    await page.close();
    if (share > 0.0003) writeFileSync(`/tmp/${name}.png`, picture);
    assert.ok(share <= 0.0003, `/tmp/${name}.png is not like ${file} (${share}); NBS_BLESS=1 takes it`);
}

const steps = {
    async "it opens, waiting ones first, and the token is not to be seen"() {
        create("shell", "bash --norc");
        create("printer", "i=0; while :; do i=$((i+1)); echo \"tick $i\"; sleep 0.2; done");
        create("asks", "printf 'Go on? [y/N] '; read -r x; echo \"answer: $x\"; cat");
        const page = await visit();
        await tile(page, "asks").locator(".state.waiting").waitFor();
        await page.waitForFunction(() => document.querySelector(".tile .name").textContent === "asks");
        assert.equal(await page.evaluate(() => location.href.includes(sessionStorage.getItem("token"))), false);
        await tile(page, "asks").getByText("Go on? [y/N]").last().waitFor();
        assert.match(await page.title(), /^\(\d+\) nbs$/);
        return page;
    },
    async "a session that comes, ends and goes is seen at once"(page) {
        const handle = create("brief", "read -r x; exit $x");
        await tile(page, "brief").waitFor();
        ts("send", handle, "7");
        await tile(page, "brief").getByText("exit 7").waitFor();
        // A session that goes before it is asked for its scrollback is an error on the console.
        const scrollback = page.waitForResponse(answer => answer.url().endsWith("/scrollback"));
        await openSession(page, "brief");
        await scrollback;
        await page.locator("#receipt", { hasText: "7" }).waitFor();
        assert.equal(await page.locator("#typing").isVisible(), false);
        await page.goBack();
        ts("kill", handle);
        await tile(page, "brief").waitFor({ state: "detached" });
    },
    async "a press answers a question"(page) {
        const handle = create("chooses", "printf 'Install it? [y/N] '; read -r x; echo \"got: $x\"; cat");
        await tile(page, "chooses").locator(".state.waiting").waitFor();
        const scrollback = page.waitForResponse(answer => answer.url().endsWith("/scrollback"));
        await openSession(page, "chooses");
        await scrollback;
        await page.locator("#choices").getByRole("button", { name: "y", exact: true }).click();
        await text(page, "got: y");
        await page.locator("#choices button").first().waitFor({ state: "detached" });
        await page.goBack();
        ts("kill", handle);
    },
    async "a line, keys, and what is typed into the terminal get there"(page) {
        await openSession(page, "asks");
        await typeLine(page, "é 漢 <b>");
        await text(page, "answer: é 漢 <b>");
        await page.getByRole("button", { name: "Control C" }).click();
        await page.locator("#receipt").waitFor();
        await page.getByRole("link", { name: "All sessions" }).click();
        await openSession(page, "shell");
        await page.locator("#large").click();
        await page.keyboard.type("echo $((6*7)) 'a b'");
        await page.keyboard.press("Backspace");
        await page.keyboard.type("'");
        await page.keyboard.press("Enter");
        await text(page, "\n42 a b");
        await page.keyboard.press("ArrowUp");
        await page.keyboard.press("Control+a");
        await page.keyboard.type(": ");
        await text(page, ": echo");
        await page.keyboard.press("Control+c");
        await page.evaluate(() => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", "echo pa\\\nsted\n");
            document.querySelector("#large").dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        });
        await page.keyboard.press("Enter");
        await text(page, "\npasted");
        // Nobody is caught in the terminal.
        await page.keyboard.press("Shift+Tab");
        assert.notEqual(await page.evaluate(() => document.activeElement.id), "large");
    },
    async "what has scrolled off is there for who scrolls up"(page) {
        await typeLine(page, "seq 300");
        await text(page, "\n300");
        await page.locator("#large").hover();
        await page.mouse.wheel(0, -100);
        await page.waitForFunction(() => /\n150\n/.test(document.querySelector("#history").innerText));
        await page.locator("#large").evaluate(large => large.scrollTo(0, large.scrollHeight));
    },
    async "a secret is not shown"(page) {
        await typeLine(page, "read -s x; echo ${#x}");
        await page.locator("#line[type=password]").waitFor();
        await typeLine(page, "hunter2");
        await text(page, "\n7");
        assert.equal((await page.locator("#rows").innerText()).includes("hunter2"), false);
        await page.locator("#line[type=text]").waitFor();
    },
    async "the commands of a shell are seen, with their output, and are copied"() {
        const handle = create("history", "bash --norc");
        ts("run", handle, "for number in 1 2 3\ndo echo line $number\ndone");
        ts("ask", handle, "sh -c 'echo no such thing; exit 3'");
        ts("run", handle, `printf '\\033[32mgreen\\033[m  text\\n'; : ${"long ".repeat(50)}`);
        for (const colorScheme of ["dark", "light"]) {
            const page = await visit({ colorScheme, permissions: ["clipboard-read"] });
            const copied = () => page.evaluate(() => navigator.clipboard.readText());
            const command = number => page.locator("#commands li").nth(3 - number);
            await openSession(page, "history");
            await page.getByText("Commands").click();
            await command(1).locator(".command").click();
            assert.equal(await command(1).locator("pre").innerText(), "line 1\nline 2\nline 3");
            await command(1).getByRole("button", { name: "Copy the command" }).click();
            await command(1).getByText("Copied").waitFor();
            assert.equal(await copied(), "for number in 1 2 3\ndo echo line $number\ndone");
            await command(1).getByRole("button", { name: "Copy the output" }).click();
            assert.equal(await copied(), "line 1\nline 2\nline 3\n");
            await command(2).locator(".command").click();
            assert.equal(await command(2).locator("pre").innerText(), "no such thing");
            const ink = locator => locator.evaluate(element => getComputedStyle(element).color);
            assert.notEqual(await ink(command(2).locator("b")), await ink(command(1).locator("b")));
            // What is not the same each time.
            await page.evaluate(() => {
                document.activeElement.blur();
                for (const copy of document.querySelectorAll(".copy")) copy.textContent = "Copy";
                for (const took of document.querySelectorAll(".command span:nth-child(2)")) took.textContent = "5ms";
            });
            await page.mouse.move(0, 0);
            await looksLike(`commands-${colorScheme}`, await page.locator("#commands").screenshot({ animations: "disabled" }));
            await page.context().close();
        }
        ts("kill", handle);
    },
    async "a port that a session listens on is reached, also of another machine"() {
        const server = "python3 -m http.server --bind 127.0.0.1 0";
        create("ports", server);
        ts("create", "--on=box", "--no-helper", "--name=far-ports", server);
        for (const [name, session] of [["ports", "@ports"], ["box:far-ports", "box:@far-ports"]]) {
            const page = await visit();
            await openSession(page, name);
            const link = page.locator("#ports a");
            await link.waitFor();
            const [opened] = await Promise.all([page.context().waitForEvent("page"), link.click()]);
            await opened.getByText("Directory listing for").waitFor();
            await page.context().close();
            ts("kill", session);
        }
    },
    async "it survives a reload"(page) {
        await page.reload();
        await text(page, "\n7");
        await typeLine(page, "echo after the re''load");
        await text(page, "\nafter the reload");
    },
    async "it survives a process of the page that is another"(page) {
        await server.stop();
        await page.locator("#notice", { hasText: "does not respond" }).waitFor();
        const before = server.base;
        server = await serve("--on=all");
        assert.equal(server.base, before);
        await page.locator("#notice").waitFor({ state: "hidden" });
        await typeLine(page, "echo after the re''start");
        await text(page, "\nafter the restart");
    },
    async "a page that was frozen goes on where it was"(page) {
        const control = await page.context().newCDPSession(page);
        await control.send("Page.setWebLifecycleState", { state: "frozen" });
        ts("run", "@shell", "seq 100000; echo woken");
        await control.send("Page.setWebLifecycleState", { state: "active" });
        await text(page, "\nwoken");
        await typeLine(page, "echo a''wake");
        await text(page, "\nawake");
    },
    async "a page that nobody sees asks for nothing, and then goes on"(page) {
        const show = hidden =>
            page.evaluate(hidden => {
                Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
                document.dispatchEvent(new Event("visibilitychange"));
            }, hidden);
        await page.clock.install();
        await show(true);
        await page.clock.fastForward(20_000);
        ts("run", "@shell", "echo un''seen");
        await show(false);
        await text(page, "\nunseen");
        await page.context().close();
    },
    async "what a session prints, and what it is called, is text"() {
        const evil = "<img src=x onerror=\"window.taken=1\"></script><script>window.taken=1</script>";
        writeFileSync("evil", `\x1b]2;${evil}\x07${evil}\r\n\x1b[31m${evil}\x1b[m\r\n`);
        create("evil", `cat evil - # ${evil}`);
        const page = await visit();
        await tile(page, "evil").getByText("onerror").first().waitFor();
        await openSession(page, "evil");
        await text(page, evil);
        const found = await page.evaluate(() => [window.taken, document.images.length, document.scripts.length]);
        assert.deepEqual(found, [undefined, 0, 1]);
        await page.context().close();
    },
    async "a session of another machine is one like any other, and what it prints is text"() {
        const handle = create("far", "printf '<b>bold</b>\\n'; i=0; while read -r x; do i=$((i+1)); echo \"$i: $x\"; done", "--on=box");
        const page = await visit();
        await tile(page, "box:far").getByText("<b>bold</b>").first().waitFor();
        await openSession(page, "box:far");
        assert.ok(page.url().endsWith(`#/${handle}`));
        for (let number = 1; number <= 3; number++) {
            await typeLine(page, "é <i>");
            await text(page, `${number}: é <i>`);
        }
        await page.reload();
        await text(page, "3: é <i>");
        await page.getByRole("button", { name: "Control C" }).click();
        await page.locator("#receipt", { hasText: "SIGINT" }).waitFor();
        await page.goBack();
        ts("kill", handle);
        await tile(page, "box:far").waitFor({ state: "detached" });
        await page.context().close();
    },
    async "fifty sessions that print at once are all shown"() {
        const page = await visit();
        for (let number = 0; number < 50; number++) {
            create(`many-${number}`, "for i in $(seq 300); do echo \"line $i\"; done; echo all $((40 + 2)); cat");
        }
        await page.waitForFunction(() => document.querySelectorAll(".tile").length > 50);
        for (let number = 0; number < 50; number += 7) {
            const shown = tile(page, `many-${number}`);
            await shown.scrollIntoViewIfNeeded();
            await shown.getByText("all 42").first().waitFor();
        }
        await page.locator("#filter").fill("many-4");
        await page.waitForFunction(() => document.querySelectorAll(".tile").length === 11);
        ts("kill", "--name=many-");
        await page.context().close();
    },
    async "it fits on every screen"() {
        for (const [width, height] of [[360, 740], [768, 1024], [1280, 800], [3840, 2160]]) {
            const page = await visit({ viewport: { width, height } });
            await tile(page, "shell").locator(".row").first().waitFor();
            const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            assert.ok((await overflow()) <= 0, `${width} px: the wall is too wide`);
            await openSession(page, "shell");
            await text(page, "unseen");
            assert.ok((await overflow()) <= 0, `${width} px: the session is too wide`);
            for (const button of await page.locator("#keys button").all()) {
                const box = await button.boundingBox();
                assert.ok(box.x >= 0 && box.x + box.width <= width && box.width >= 36 && box.height >= 44, `${width} px: a key`);
            }
            await page.context().close();
        }
    },
    async "links of the screen lead elsewhere, if they are of a safe kind"() {
        const address = scheme => `\\033]8;;${scheme}example.org/\\033\\\\${scheme}\\033]8;;\\033\\\\ `;
        create("links", `printf '${["https://", "javascript:", "file:///", "data:"].map(address).join("")}'; cat`);
        const page = await visit();
        await tile(page, "links").getByText("javascript:").first().waitFor();
        assert.equal(await tile(page, "links").locator(".row a").count(), 0);
        await openSession(page, "links");
        await text(page, "javascript:");
        const links = await page.locator(".row a").evaluateAll(all => all.map(link => [link.href, link.target, link.rel]));
        assert.deepEqual(links, [["https://example.org/", "_blank", "noopener noreferrer"]]);
        ts("kill", "--name=links");
        await page.context().close();
    },
    async "a page without a token says so"() {
        const page = await browser.newPage();
        await page.goto(server.base);
        await page.locator("#notice", { hasText: "token is missing" }).waitFor();
        assert.deepEqual(await names(page), []);
        await page.close();
    },
};

let page;
for (const [name, step] of Object.entries(steps)) {
    try {
        page = (await step(page)) ?? page;
        assert.deepEqual(faults, [], name);
    } catch (error) {
        console.error(`not ok - ${name}\n${error.stack}`);
        for (const context of browser.contexts()) {
            for (const page of context.pages()) console.error("---\n" + (await page.locator("body").innerText()).slice(-3000));
        }
        process.exit(1);
    }
    console.log(`ok - ${name}`);
}

if (pictures) {
    for (const colorScheme of ["dark", "light"]) {
        for (const [width, height] of [[360, 740], [1440, 900], [3840, 2160]]) {
            const page = await visit({ viewport: { width, height }, colorScheme });
            await tile(page, "shell").locator(".row").first().waitFor();
            await page.screenshot({ path: `${pictures}/wall-${colorScheme}-${width}.png` });
            await openSession(page, "shell");
            await text(page, "unseen");
            await page.screenshot({ path: `${pictures}/session-${colorScheme}-${width}.png` });
            await page.context().close();
        }
    }
}
await browser.close();
await server.stop();
