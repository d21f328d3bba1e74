// Does the tasks by the TypeScript SDK, of either line of it.
//
// Usage: client.mjs SDK SERVER TASKS
//
// SDK is `sdk` (version 1, which makes a handshake) or `client` (version 2, in both ways).
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [sdk, server, file] = process.argv.slice(2);
const tasks = JSON.parse(readFileSync(file, "utf8"));

const old = sdk === "sdk";
const { Client } = await import(old ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StdioClientTransport } = await import(
    old ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio"
);

const ways = old
    ? [["2025-11-25", {}]]
    : [
          ["2026-07-28", { versionNegotiation: { mode: "auto" } }],
          ["2025-11-25", { versionNegotiation: { mode: "legacy" } }],
      ];

for (const [version, options] of ways) {
    const folder = mkdtempSync(join(tmpdir(), "nbs-sdk-"));
    const env = { NBS_TS_HOME: join(folder, "state"), HOME: folder, PATH: process.env.PATH };
    const transport = new StdioClientTransport({ command: server, args: [], env, cwd: folder });
    const client = new Client({ name: "tasks", version: "1" }, options);
    // What is no message is told here.
    client.onerror = (error) => {
        throw error;
    };
    await client.connect(transport);
    const spoken = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? version;
    assert.equal(spoken, version);
    assert.equal((await client.listTools()).tools.length, 8);
    for (const [index, task] of tasks.entries()) {
        await perform(client, task);
        console.log(`ok ${index + 1} - ${task.task}`);
    }
    await client.close();
    rmSync(folder, { recursive: true });
    console.log(`typescript, ${sdk}, ${version}: ${tasks.length} tasks`);
}

function call(client, { tool, arguments: args }, options) {
    const request = { name: tool, arguments: args };
    return old ? client.callTool(request, undefined, options) : client.callTool(request, options);
}

async function perform(client, task) {
    let calls = task.calls;
    if (task.at_once) {
        await Promise.all(calls.map((each) => check(client, each)));
        return;
    }
    if (task.cancel) {
        const controller = new AbortController();
        setTimeout(() => controller.abort("no more"), 1000);
        await assert.rejects(call(client, calls[0], { signal: controller.signal }));
        calls = calls.slice(1);
    }
    const told = [];
    const options = task.progress ? { onprogress: (progress) => told.push(progress) } : undefined;
    for (const each of calls) {
        await check(client, each, options);
    }
    assert.equal(told.length > 0, Boolean(task.progress), JSON.stringify(told));
}

async function check(client, wanted, options) {
    const result = await call(client, wanted, options);
    const [content] = result.content;
    const shown = JSON.stringify({ wanted, result });
    assert.equal(Boolean(result.isError), Boolean(wanted.error), shown);
    if (wanted.image) {
        assert.deepEqual([content.type, content.mimeType], ["image", wanted.image], shown);
    } else {
        assert.match(content.text, new RegExp(wanted.says), shown);
    }
}
