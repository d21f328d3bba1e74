import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as nbs from '../nbs.js'

const here = fileURLToPath(new URL('.', import.meta.url))
process.env.NBS_FILE ??= fileURLToPath(new URL('../../../target/debug/nbs', import.meta.url))
const { Session } = nbs

let home
beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'nbs-'))
    chmodSync(home, 0o700)
    Object.assign(process.env, { NBS_TS_HOME: home, HOME: home, PS1: '$ ' })
})
afterEach(async () => {
    const left = (await nbs.sessions()).filter(session => session.alive)
    await nbs.kill([], { all: true, ifExists: true })
    rmSync(home, { recursive: true })
    assert.deepEqual(left, [])
})

async function using(session, work) {
    try {
        await work(session)
    } finally {
        await session[Symbol.asyncDispose]()
    }
}

test('a shell keeps its directory and variables', async () => {
    await using(await Session.create(), async shell => {
        ;(await shell.run('cd /usr && x=5')).check()
        const result = await shell.run('pwd; echo "x is $x"; (exit 3)')
        assert.equal(result.output, '/usr\nx is 5\n')
        assert.deepEqual([result.exitCode, result.state, result.ok], [3, 'done', false])
        assert.throws(() => result.check(), error => error instanceof nbs.CommandFailed && error.result === result)
        assert.equal(await shell.pwd(), '/usr')
        assert.equal((await shell.run(['printf', '%s|', 'a b', "it's"])).output, "a b|it's|")
    })
    assert.deepEqual(await nbs.sessions(), [])
})

test('a question is answered', async () => {
    await using(await Session.create(), async shell => {
        const result = await shell.run('read -p "sure? " x; echo "you said $x"')
        assert.deepEqual([result.question, result.terminal, result.exitCode], ['sure?', 'line', null])
        assert.deepEqual((await nbs.sessions({ waiting: true })).map(one => one.handle), [shell.handle])
        await shell.answer('yes')
        assert.match((await shell.resume()).check().output, /you said yes\n$/)
        await assert.rejects(shell.answer('yes'), /does not ask/)
    })
})

test('errors have their evidence as fields', async () => {
    await using(await Session.create(), async shell => {
        await assert.rejects(shell.wait({ pattern: 'never', timeout: 0.3 }), error => {
            assert.ok(error instanceof nbs.TimedOut && error instanceof nbs.NbsError)
            assert.deepEqual([error.exit, error.kind, error.waited], [3, 'timeout', 0.3])
            assert.ok(error.terminal)
            return true
        })
        const slow = await shell.run('echo slow; sleep 50', { timeout: 0.5 })
        assert.ok(slow.timedOut)
        assert.throws(() => slow.check(), nbs.TimedOut)
        await assert.rejects(Session.open('00000000').status(), nbs.NotFound)
        await assert.rejects(Session.create('bash', { name: 'not a name' }), nbs.BadArguments)
        shell.send('echo "error: no"')
        await assert.rejects(shell.wait({ pattern: 'yes', fail: 'error: n' }), /printed 'error: n'/)
    })
    await using(await Session.create('sleep 60'), once => assert.rejects(once.run('true'), nbs.NotRun))
    execFileSync(nbs.file(), ['ts', 'machine', 'add', 'nowhere', 'false'])
    await assert.rejects(Session.create('bash', { machine: 'nowhere' }), nbs.ConnectionLost)
})

test('an aborted signal ends its call and not its session', async () => {
    await using(await Session.create(), async shell => {
        const controller = new AbortController()
        const running = shell.run('echo begun; sleep 1000', { signal: controller.signal })
        await shell.wait({ pattern: 'begun' })
        controller.abort()
        await assert.rejects(running, { name: 'AbortError' })
        assert.equal((await shell.run('echo usable')).output, 'usable\n')
        await assert.rejects(Session.create('bash', { signal: controller.signal }), { name: 'AbortError' })
    })
})

test('output arrives as it is printed', async () => {
    await using(await Session.create('for i in 1 2 3; do echo $i; sleep 0.1; done; exit 5'), async counting => {
        const follow = counting.follow()
        let output = ''
        let next
        while (!(next = await follow.next()).done) output += next.value.text
        assert.equal(output, '1\r\n2\r\n3\r\n')
        assert.equal(next.value.exitCode, 5)
    })
    await using(await Session.create('yes'), async endless => {
        for await (const chunk of endless.follow()) {
            assert.match(chunk.text, /y/)
            break
        }
    })
})

test('the history has each command and its output', async () => {
    await using(await Session.create(), async shell => {
        await shell.run('echo one')
        await shell.run('echo two; (exit 3)')
        const [failed] = await shell.history({ failed: true })
        assert.deepEqual([failed.command, failed.exit_code], ['echo two; (exit 3)', 3])
        assert.equal((await shell.read({ command: failed.command_id, strip: true })).text, 'two\n')
        assert.deepEqual((await nbs.history({ grep: '^echo one$' })).map(one => one.handle), [shell.handle])
    })
})

test('the screen is text and a picture', async () => {
    await using(await Session.create('bash', { size: [40, 5] }), async shell => {
        await shell.run("printf '\\033[31mred\\033[0m and plain\\n'")
        const screen = await shell.screen()
        assert.match(screen.text, /red and plain/)
        assert.ok(!screen.text.includes('\x1b'))
        assert.deepEqual(screen.size, { columns: 40, rows: 5 })
        assert.match(await screen.svg(), /^<svg[^]*>red<\/text>/)
        assert.ok(nbs.matchers.toShow(screen, 'red and').pass)
        assert.match(nbs.matchers.toShow(screen, /blue/).message(), /to show \/blue\/; it shows:\n/)
        await shell.resize(60, 10)
        assert.deepEqual((await shell.screen()).size, { columns: 60, rows: 10 })
    })
})

test('keys, secrets and the end of input reach the program', async () => {
    await using(await Session.create('cat'), async cat => {
        await cat.key('a', 'b', 'Enter', { text: 'x' })
        await cat.wait({ pattern: 'xab' })
        await cat.eof()
        assert.equal((await cat.wait({ exit: true })).detail, '0')
        const again = await cat.restart()
        await again.kill()
    })
    await using(await Session.create(), async shell => {
        assert.equal((await shell.run('read -s -p "password: " x; echo "${#x}"')).terminal, 'secret')
        await shell.send('', { secret: 'open sesame' })
        assert.equal((await shell.resume()).check().output.trim(), '11')
        assert.ok(!(await shell.readBytes()).includes('sesame'))
    })
})

test('a session of a name outlives this use of it', async () => {
    const kept = await Session.ensure('kept')
    await using(await Session.ensure('kept'), again => assert.equal(again.handle, kept.handle))
    assert.equal(await nbs.find('kept'), kept.handle)
    assert.deepEqual(await nbs.kill([], { name: 'kept' }), [kept.handle])
})

test('a session ends with the program, however that ends', async () => {
    const script = "import { Session } from '../nbs.js'\nconsole.log((await Session.create()).handle)\nsetInterval(() => {}, 1000)"
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { cwd: here })
    const handle = await new Promise(resolve => child.stdout.once('data', data => resolve(String(data).trim())))
    const ended = nbs.wait([handle], { exit: true })
    child.kill('SIGKILL')
    await ended
    await nbs.kill([handle])
})

test('many calls at once leave no process and no descriptor', async () => {
    const before = readdirSync('/proc/self/fd').length
    const calls = Array.from({ length: 50 }, async () => {
        for (let turn = 0; turn < 20; turn++) await assert.rejects(Session.open('00000000').status(), nbs.NotFound)
    })
    await Promise.all(calls)
    assert.ok(readdirSync('/proc/self/fd').length <= before)
    assert.equal(readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim(), '')
})

test('programs, files and ports of another machine are used', async () => {
    const there = join(home, 'there')
    mkdirSync(there, { mode: 0o700 })
    const words = ['env', '-i', `HOME=${there}`, 'PATH=/usr/bin:/bin', 'sh']
    execFileSync(nbs.file(), ['ts', 'machine', 'add', 'box', ...words])
    const box = new nbs.Machine('box')
    const done = await box.exec("pwd; cat; printf 'a\\377' >&2; exit 4", { stdin: 'given\n' })
    assert.deepEqual([done.text, done.exitCode, done.ok], [`${there}\ngiven\n`, 4, false])
    assert.deepEqual(done.errors, Buffer.from([97, 255]))
    assert.equal((await box.exec(['printf', '%s|', 'a b', '$HOME'])).check().text, 'a b|$HOME|')
    const failed = await box.exec('echo broken >&2; exit 255')
    assert.throws(() => failed.check(), error => error instanceof nbs.CommandFailed && error.result === failed)
    await assert.rejects(box.exec('sleep 1000', { timeout: '200ms' }), error => error instanceof nbs.TimedOut && error.waited === 0.2)
    await assert.rejects(box.exec('sleep 1000', { signal: AbortSignal.timeout(200) }), { name: 'TimeoutError' })

    writeFileSync(join(home, 'a:b'), 'text')
    process.chdir(home)
    await box.put('a:b')
    assert.equal(readFileSync(join(there, 'a:b'), 'utf8'), 'text')
    await box.get(['a:b'], 'copied')
    assert.equal(readFileSync(join(home, 'copied'), 'utf8'), 'text')
    await nbs.cp('box:a:b', 'box:again')
    await assert.rejects(box.get('missing'), /missing/)

    const server = createServer(socket => socket.pipe(socket)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address()
    for (const reverse of [false, true]) {
        const forward = await box.forward(`0:127.0.0.1:${port}`, `0:localhost:${port}`, { reverse })
        assert.deepEqual([forward.listening.length, forward.listening[0]], [2, `${reverse ? 'box' : '127.0.0.1'}:${forward.port}`])
        const client = connect(forward.port, '127.0.0.1')
        client.write('hello')
        assert.equal(String((await once(client, 'data'))[0]), 'hello')
        client.destroy()
        await forward.close()
    }
    await assert.rejects(box.forward(port), new RegExp(String(port)))
    await assert.rejects(box.forward(), nbs.BadArguments)
    server.close()
    execFileSync(nbs.file(), ['ts', 'machine', 'add', 'nowhere', 'false'])
    const nowhere = new nbs.Machine('nowhere')
    await assert.rejects(nowhere.exec('true'), nbs.ConnectionLost)
    await assert.rejects(nowhere.forward(0), nbs.ConnectionLost)
    process.chdir(here)
})

// Every command of nbs-ts has its method or function, and every option its property.
const LEFT_OUT = new Set(['doctor', 'help', 'hooks', 'machine', 'notify', 'top'])
const LEFT_OUT_OPTIONS = new Set([
    'attach --interactive', 'attach --read-only', 'attach --legacy-exit', 'history --export', 'history --follow', 'list --long', 'list --follow', 'report --hook',
    'report --quiet', 'render --png', 'restart --boot', 'screen --png', 'screen --svg', 'send --secret-fd', 'screen --ansi', 'events --follow',
])
const ALWAYS = new Set(['all', 'json', 'stdin', 'secretStdin', 'resume'])
const INTERFACES = { history: 'HistoryOfAll', wait: 'WaitAll', kill: 'KillAll', ensure: 'Create', eof: 'Timeout', integrate: 'Timeout', 'wait-complete': 'Timeout' }
const NAMES = { on: 'machine', noEnter: 'enter' }

test('every command and option is here', () => {
    const types = readFileSync(join(here, '../nbs.d.ts'), 'utf8')
    const properties = name => {
        const found = new RegExp(`export interface ${name} (?:extends ([\\w, ]+) )?\\{\n([^]*?)\n\\}`).exec(types)
        if (!found) return []
        const own = [...found[2].matchAll(/^ {4}(\w+)\?/gm)].map(match => match[1])
        return [...own, ...(found[1] ?? '').split(', ').filter(Boolean).flatMap(properties)]
    }
    const camel = word => word.replace(/-(.)/g, (_, letter) => letter.toUpperCase())
    const missing = []
    const { commands } = JSON.parse(execFileSync(nbs.file(), ['ts', 'help', '--json']))
    for (const { name, options } of commands) {
        if (LEFT_OUT.has(name)) continue
        const method = camel(name)
        const functions = { attach: 'follow', list: 'sessions' }
        const known = functions[method] ?? method
        const places = [Session.prototype, nbs.Machine.prototype, Session, nbs]
        if (!places.some(place => known in place)) missing.push(name)
        const camelName = camel(name)
        const here = properties(`${INTERFACES[name] ?? camelName[0].toUpperCase() + camelName.slice(1)}Options`)
        for (const option of options) {
            const word = camel(option.name.slice(2))
            if (ALWAYS.has(word) || LEFT_OUT_OPTIONS.has(`${name} ${option.name}`)) continue
            if (!here.includes(NAMES[word] ?? word)) missing.push(`${name} ${option.name}`)
        }
    }
    assert.deepEqual(missing, [])
})

test('the version is that of the file', () => {
    const { version } = JSON.parse(readFileSync(join(here, '../package.json'), 'utf8'))
    assert.equal(String(execFileSync(nbs.file(), ['--version'])).split(' ')[1], version)
})
