// Usage: picture.mjs NBS-PAGE CHROMIUM FILE
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [program, executablePath, path] = process.argv.slice(2);
const server = spawn(program, { stdio: ["ignore", "pipe", "inherit"] });
process.on("exit", () => server.kill());
const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
const { value: url } = await lines.next();
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 600 }, colorScheme: "dark" });
await page.goto(url);
// All have been looked at, and stand where they belong.
await page.waitForFunction(() => [...document.querySelectorAll(".tile")].slice(0, 4).every(tile => tile.matches(".waiting")));
await page.waitForFunction(() => document.getAnimations().every(animation => animation.effect.getTiming().iterations === Infinity));
await page.screenshot({ path, animations: "disabled" });
await browser.close();
process.exit();
