// Terminal sessions for programs. The types, and what everything means, are in nbs.d.ts.
//
// Each call is a process of the nbs file. It is in a session of its own, so that a Ctrl-C at the
// program's terminal reaches the program alone.

import { spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import { fileURLToPath } from 'node:url'

export class NbsError extends Error {
    constructor(message, { kind = 'failed', exit = 1, answer = {} } = {}) {
        super(message)
        this.name = new.target.name
        this.kind = kind
        this.exit = exit
        this.answer = answer
    }

    get session() {
        return this.answer.handle
    }

    get output() {
        return this.answer.output
    }

    get waited() {
        const found = /timed out after ([0-9.]+) s\b/.exec(this.message)
        return found ? Number(found[1]) : undefined
    }

    get terminal() {
        return /; the terminal's state is ([a-z]+)/.exec(this.message)?.[1]
    }

    get lastLine() {
        return /; last line: '(.*?)'(?:;|$)/s.exec(this.message)?.[1]
    }
}

export class NotFound extends NbsError {}
export class TimedOut extends NbsError {}
export class BadArguments extends NbsError {}
export class NotRun extends NbsError {}
export class ConnectionLost extends NbsError {}
export class CommandFailed extends NbsError {}

function errorOf(said, answer = {}) {
    const kinds = { not_found: NotFound, timeout: TimedOut, bad_arguments: BadArguments }
    const codes = { 2: NotFound, 3: TimedOut, 4: BadArguments, 125: NotRun, 255: ConnectionLost }
    const Kind = kinds[said.kind] ?? codes[said.exit] ?? NbsError
    return new Kind(said.error, { kind: said.kind, exit: said.exit, answer })
}

export function file() {
    if (process.env.NBS_FILE) return process.env.NBS_FILE
    const arch = { x64: 'x86_64', arm64: 'aarch64' }[process.arch]
    const own = fileURLToPath(new URL(`bin/nbs-${arch}`, import.meta.url))
    const path = (process.env.PATH ?? '').split(delimiter).map(folder => join(folder, 'nbs'))
    for (const candidate of [own, ...path]) {
        try {
            accessSync(candidate, constants.X_OK)
            return candidate
        } catch {
            // The next one.
        }
    }
    throw new NbsError('cannot find the file nbs: it is not on the PATH; install it, or set NBS_FILE')
}

// What the options of a call are on the command line. What is undefined, null or false is not given.
function wordsOf(options = {}) {
    const words = []
    for (const [name, value] of Object.entries(options)) {
        if (name === 'signal' || value === undefined || value === null || value === false) continue
        const option = '--' + (name === 'machine' ? 'on' : name.replace(/[A-Z]/g, letter => '-' + letter.toLowerCase()))
        if (value === true) {
            words.push(option)
            continue
        }
        let values = Array.isArray(value) ? value : [value]
        if (name === 'size' && Array.isArray(value)) values = [value.join('x')]
        if (name === 'env') values = Object.entries(value).map(([key, text]) => `${key}=${text}`)
        for (const one of values) {
            const word = `${option}=${one}`
            if (word.includes('\0')) throw new BadArguments(`${name}: it contains a NUL`, { kind: 'bad_arguments', exit: 4 })
            words.push(word)
        }
    }
    return words
}

function commandText(command) {
    if (typeof command === 'string') return command
    return command.map(word => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`)).join(' ')
}

function start(words, stdin) {
    const child = spawn(file(), ['ts', ...words], { stdio: ['pipe', 'pipe', 'pipe'], detached: true })
    // A call that does not read what it is given says why on standard error.
    child.stdin.on('error', () => {})
    child.stdin.end(stdin)
    return child
}

// Ends a call: `run` interrupts its command first, which takes 3 s at most.
function end(child) {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGTERM')
    const timer = setTimeout(() => child.kill('SIGKILL'), 5000)
    child.once('exit', () => clearTimeout(timer))
}

function errorIn(text, code, verb) {
    let error
    for (const line of text.split('\n')) {
        if (!line) continue
        try {
            const said = JSON.parse(line)
            if (said.error !== undefined) error = said
        } catch {
            // A line that is no object is a remark, unless the call failed.
            if (code) error = { error: line.replace(/^[^:]*: /, ''), kind: 'failed', exit: code }
        }
    }
    if (code && !error) error = { error: `'nbs-ts ${verb}' exited with ${code}`, kind: 'failed', exit: code }
    return error
}

// A call to its end: what it printed, and its error. An aborted signal ends the call, not the session.
// So does the limit, for calls that have no timeout of their own.
async function call(words, { stdin, signal, limit, finish = false } = {}) {
    if (!finish) signal?.throwIfAborted()
    const child = start(words, stdin)
    const output = []
    const errors = []
    child.stdout.on('data', data => output.push(data))
    child.stderr.on('data', data => errors.push(data))
    const abort = () => end(child)
    if (!finish) signal?.addEventListener('abort', abort, { once: true })
    let late = false
    const timer = limit === undefined ? undefined : setTimeout(() => ((late = true), end(child)), limit)
    try {
        const code = await new Promise((resolve, reject) => {
            child.once('error', error => reject(new NbsError(`cannot start nbs: ${error.message}`)))
            child.once('close', (code, by) => resolve(by ? 1 : code))
        })
        if (!finish) signal?.throwIfAborted()
        const bytes = Buffer.concat(output)
        if (late) {
            const text = `'nbs-ts ${words[0]}' timed out after ${limit / 1000} s`
            throw new TimedOut(text, { kind: 'timeout', exit: 3, answer: { output: bytes.toString() } })
        }
        const said = Buffer.concat(errors)
        return { bytes, code, said, error: errorIn(said.toString(), code, words[0]) }
    } finally {
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
    }
}

function parsed(bytes) {
    return bytes.toString().split('\n').filter(Boolean).map(line => JSON.parse(line))
}

async function objects(words, options) {
    const { bytes, error } = await call(words, options)
    const said = parsed(bytes)
    const failed = said.find(one => one.condition === 'fail')
    if (failed) {
        const text = `session '${failed.handle}' printed '${failed.detail}'`
        throw new NbsError(text, { kind: 'fail', answer: failed })
    }
    if (error) throw errorOf(error, said[0])
    return said
}

async function object(words, options) {
    const [said] = await objects(words, options)
    if (!said) throw new NbsError(`'nbs-ts ${words[0]}' printed nothing`)
    return said
}

async function text(words, options) {
    const { bytes, error } = await call(words, options)
    if (error) throw errorOf(error)
    return bytes
}

// A timeout that the call itself does not have, in milliseconds.
function milliseconds(time) {
    if (time === undefined || typeof time === 'number') return time === undefined ? undefined : time * 1000
    const found = /^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?$/.exec(time)
    if (!found) throw new BadArguments(`invalid TIME '${time}'`, { kind: 'bad_arguments', exit: 4 })
    return Number(found[1]) * { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }[found[2] ?? 's']
}

export class Executed {
    constructor(machine, output, errors, exitCode) {
        this.machine = machine
        this.output = output
        this.errors = errors
        this.exitCode = exitCode
    }

    get text() {
        return this.output.toString()
    }

    get ok() {
        return this.exitCode === 0
    }

    check() {
        if (this.ok) return this
        const what = `the program on '${this.machine}' exited with ${this.exitCode}`
        const tail = this.errors.toString().trimEnd().slice(-2000)
        const message = tail ? `${what}; its standard error ends with:\n${tail}` : what
        const error = new CommandFailed(message, { kind: 'done', exit: this.exitCode, answer: { output: this.text } })
        error.result = this
        throw error
    }
}

export class Result {
    constructor(said, error) {
        this.session = said.handle
        this.output = said.output
        this.exitCode = said.exit_code
        this.duration = said.duration_ms / 1000
        this.state = said.result
        this.question = said.result === 'input' ? (said.question ?? '') : null
        this.terminal = said.terminal ?? null
        this.message = said.result === 'done' ? null : (error?.error ?? null)
        this.lossy = said.lossy ?? false
    }

    get timedOut() {
        return this.state === 'timeout'
    }

    get ok() {
        return this.state === 'done' && this.exitCode === 0
    }

    check() {
        if (this.ok) return this
        const what = this.message ?? `the command exited with ${this.exitCode}`
        const tail = this.output.trimEnd().slice(-2000)
        const message = tail ? `${what}; its output ends with:\n${tail}` : what
        const answer = { handle: this.session, output: this.output }
        if (this.timedOut) throw new TimedOut(message, { kind: 'timeout', exit: 124, answer })
        const error = new CommandFailed(message, { kind: this.state, exit: this.exitCode ?? 123, answer })
        error.result = this
        throw error
    }
}

const STYLE = /\x1b(?:\[[0-9;:]*m|\]8;[^\x07\x1b]*(?:\x07|\x1b\\))/g

export class Screen {
    constructor(session, said) {
        this.session = session
        this.styled = said.lines
        this.lines = said.lines.map(line => line.replace(STYLE, ''))
        this.cursor = said.cursor && { row: said.cursor.row, column: said.cursor.col, visible: said.cursor.visible }
        this.size = said.size && { columns: said.size.cols, rows: said.size.rows }
        this.title = said.title
        this.alternate = said.alternate
    }

    get text() {
        return this.lines.join('\n').replace(/\n+$/, '')
    }

    toString() {
        return this.text
    }

    async svg() {
        const { columns, rows } = this.size ?? { columns: 80, rows: Math.max(this.lines.length, 1) }
        const cursor = this.cursor ? `\x1b[${this.cursor.row};${this.cursor.column}H` : ''
        const shown = this.cursor?.visible ? '' : '\x1b[?25l'
        return render(this.styled.slice(-rows).join('\r\n') + cursor + shown, { size: [columns, rows], svg: true })
    }
}

function outputOf(said) {
    return { text: said.output, offset: said.offset, nextOffset: said.next_offset, lossy: said.lossy ?? false }
}

function metOf(said) {
    return { session: said.handle, condition: said.condition, detail: String(said.detail), offset: said.offset }
}

function exitOf(said, session = said.handle) {
    const { exit_code, signal, ended_by, timed_out } = said
    return { session, exitCode: exit_code, signal, endedBy: ended_by, timedOut: Boolean(timed_out) }
}

function infoOf(said) {
    const { handle, name, command, activity, terminal, question } = said
    return { handle, name, command, alive: said.state === 'alive', activity, terminal, question, exitCode: said.exit_code, fields: said }
}

// The lines of a call that goes on. Leaving the loop ends the call, not the session.
async function* lines(words, signal) {
    signal?.throwIfAborted()
    const child = start(words)
    const closed = new Promise(resolve => {
        child.once('error', error => resolve({ error }))
        child.once('close', code => resolve({ code }))
    })
    const errors = []
    child.stderr.on('data', data => errors.push(data))
    const abort = () => end(child)
    signal?.addEventListener('abort', abort, { once: true })
    try {
        const decoder = new StringDecoder('utf8')
        let rest = ''
        for await (const data of child.stdout) {
            const complete = (rest + decoder.write(data)).split('\n')
            rest = complete.pop()
            for (const line of complete) yield JSON.parse(line)
        }
        const { code, error } = await closed
        signal?.throwIfAborted()
        if (error) throw new NbsError(`cannot start nbs: ${error.message}`)
        const said = errorIn(Buffer.concat(errors).toString(), code, words[0])
        if (said) throw errorOf(said)
    } finally {
        signal?.removeEventListener('abort', abort)
        end(child)
        await closed
    }
}

export class Session {
    constructor(handle, begun = false) {
        this.handle = handle
        this.begun = begun
    }

    static async create(command = 'bash', options = {}) {
        const { signal, ...given } = options
        if (given.owner === undefined && given.machine === undefined) given.owner = process.pid
        const words = ['create', '--json', ...wordsOf(given), '--', commandText(command)]
        signal?.throwIfAborted()
        // It is not aborted half way: what was started is known, and removed.
        const said = await object(words, { finish: true })
        const session = new Session(said.handle, true)
        if (signal?.aborted) {
            await session.kill({ ifExists: true })
            signal.throwIfAborted()
        }
        return session
    }

    static open(handle) {
        return new Session(handle)
    }

    static async ensure(name, command, options = {}) {
        const rest = command === undefined ? [] : ['--', commandText(command)]
        const said = await object(['ensure', '--json', ...wordsOf({ ...options, name }), ...rest], options)
        return new Session(said.handle)
    }

    async [Symbol.asyncDispose]() {
        if (this.begun) await object(['kill', '--json', '--if-exists', this.handle], { finish: true }).catch(ignoreGone)
    }

    async run(command, options = {}) {
        return this.#ran(['run', '--json', '--stdin', ...wordsOf(options), this.handle], options, commandText(command))
    }

    async resume(options = {}) {
        return this.#ran(['run', '--json', '--resume', ...wordsOf(options), this.handle], options)
    }

    async #ran(words, { signal }, stdin) {
        const { bytes, error } = await call(words, { signal, stdin })
        const [said] = parsed(bytes)
        if (said?.result === undefined) throw errorOf(error ?? { error: 'the call printed nothing', exit: 125 })
        return new Result(said, error)
    }

    async ask(text, options = {}) {
        const words = ['ask', '--json', '--stdin', ...wordsOf(options), this.handle]
        const said = await object(words, { ...options, stdin: text })
        const { handle, output, condition, detail, terminal, question, offset } = said
        return { session: handle, output, condition, detail: String(detail), terminal, question, offset, lossy: said.lossy ?? false }
    }

    async send(text = '', options = {}) {
        const { secret, enter = true, ...given } = options
        const how = { noEnter: !enter, stdin: secret === undefined, secretStdin: secret !== undefined }
        const words = ['send', '--json', ...wordsOf({ ...how, ...given }), this.handle]
        await objects(words, { ...options, stdin: secret ?? text })
    }

    async key(...keys) {
        const options = typeof keys.at(-1) === 'object' ? keys.pop() : {}
        const { text, ...given } = options
        const words = ['key', '--json', ...wordsOf({ ...given, stdin: text !== undefined }), '--', this.handle, ...keys]
        await objects(words, { ...options, stdin: text })
    }

    async answer(text, options = {}) {
        await object(['answer', '--json', ...wordsOf(options), this.handle, text], options)
    }

    async eof(options = {}) {
        await objects(['eof', '--json', ...wordsOf(options), this.handle], options)
    }

    async wait(options = {}) {
        return metOf(await object(['wait', '--json', ...wordsOf(options), this.handle], options))
    }

    async waitComplete(options = {}) {
        return (await object(['wait-complete', '--json', ...wordsOf(options), this.handle], options)).exit_code
    }

    async waitPattern(pattern, options = {}) {
        await objects(['wait-pattern', '--json', ...wordsOf(options), '--', this.handle, pattern], options)
    }

    async screen(options = {}) {
        return new Screen(this.handle, await object(['screen', '--json', '--ansi', ...wordsOf(options), this.handle], options))
    }

    async read(options = {}) {
        return outputOf(await object(['read', '--json', ...wordsOf(options), this.handle], options))
    }

    async readBytes(options = {}) {
        return text(['read', ...wordsOf(options), this.handle], options)
    }

    async readNew(options = {}) {
        return outputOf(await object(['read-new', '--json', ...wordsOf(options), this.handle], options))
    }

    async status(options = {}) {
        return infoOf(await object(['status', '--json', this.handle], options))
    }

    async exitCode(options = {}) {
        return exitOf(await object(['exit-code', '--json', this.handle], options))
    }

    async clipboard(options = {}) {
        return (await object(['clipboard', '--json', this.handle], options)).text
    }

    async pwd(options = {}) {
        return (await object(['pwd', '--json', this.handle], options)).folder
    }

    async resize(columns, rows, options = {}) {
        await text(['resize', this.handle, `${columns}x${rows}`], options)
    }

    async integrate(options = {}) {
        await objects(['integrate', '--json', ...wordsOf(options), this.handle], options)
    }

    async report(state, message = '', options = {}) {
        await text(['report', '--json', this.handle, state, ...(message ? [message] : [])], options)
    }

    async cast(options = {}) {
        return (await text(['cast', ...wordsOf(options), this.handle], options)).toString()
    }

    async history(options = {}) {
        return objects(['history', '--json', ...wordsOf(options), this.handle], options)
    }

    async restart(options = {}) {
        const said = await object(['restart', '--json', ...wordsOf(options), this.handle], options)
        return new Session(said.handle, this.begun)
    }

    async kill(options = {}) {
        await objects(['kill', '--json', ...wordsOf(options), this.handle], options)
    }

    async *follow(options = {}) {
        for await (const said of lines(['attach', '--json', ...wordsOf(options), this.handle], options.signal)) {
            if (said.type === 'output') yield { text: said.data, offset: said.offset, lost: said.lost ?? 0 }
            if (said.type === 'pty_exited') return exitOf(said, this.handle)
        }
        return undefined
    }
}

export class Machine {
    constructor(name) {
        this.name = name
    }

    async exec(command, options = {}) {
        const { stdin, signal, timeout } = options
        const words = ['exec', '--', this.name, commandText(command)]
        const { bytes, code, said, error } = await call(words, { stdin, signal, limit: milliseconds(timeout) })
        // What nbs itself has to say comes last. Any other exit code is the program's.
        const last = said.toString().trimEnd().split('\n').at(-1)
        if ((code === 4 || code === 255) && last.startsWith('nbs-ts: ')) throw errorOf(error)
        return new Executed(this.name, bytes, said, code)
    }

    async put(sources, dest = '.', options = {}) {
        await cp([sources].flat().map(here), `${this.name}:${dest}`, options)
    }

    async get(sources, dest = '.', options = {}) {
        await cp([sources].flat().map(path => `${this.name}:${path}`), here(dest), options)
    }

    async forward(...forwards) {
        const { signal, timeout = 60, ...given } = typeof forwards.at(-1) === 'object' ? forwards.pop() : {}
        if (!forwards.length) throw new BadArguments('no port to forward', { kind: 'bad_arguments', exit: 4 })
        const words = ['forward', ...wordsOf(given), '--', this.name, ...forwards.map(String)]
        // The call is a session, for then it ends with this program, however that ends.
        const command = 'exec ' + commandText([file(), 'ts', ...words])
        const session = await Session.create(command, { noHelper: true, title: words.join(' '), signal })
        try {
            return new Forward(session, await listening(session, forwards.length, { signal, timeout }))
        } catch (error) {
            await session[Symbol.asyncDispose]()
            throw error
        }
    }
}

export class Forward {
    #session

    constructor(session, addresses) {
        this.#session = session
        this.listening = addresses
    }

    get port() {
        return Number(this.listening[0].split(':').at(-1))
    }

    async close() {
        await this.#session[Symbol.asyncDispose]()
    }

    async [Symbol.asyncDispose]() {
        await this.close()
    }
}

// Where so many forwards listen, when all of them do.
async function listening(session, count, options) {
    for (let offset = 0; ; ) {
        try {
            await session.wait({ ...options, regex: '^forward: (.*) -> ', offset })
        } catch (error) {
            if (error instanceof TimedOut || !(error instanceof NbsError)) throw error
            const { exitCode } = await session.exitCode()
            const { text } = await session.read({ strip: true })
            const last = text.trimEnd().split('\n').at(-1)
            throw errorOf({ error: last.replace(/^[^:]*: /, ''), kind: 'failed', exit: exitCode ?? 1 }, { output: text })
        }
        const printed = await session.readBytes()
        offset = printed.lastIndexOf('\n') + 1
        const lines = printed.subarray(0, offset).toString()
        const found = [...lines.matchAll(/^forward: (.*) -> /gm)].map(match => match[1])
        if (found.length >= count) return found
    }
}

// Else a colon in the name of a file here would make a machine of it.
function here(path) {
    return path.startsWith('/') ? path : `./${path}`
}

export async function cp(sources, dest, options = {}) {
    await text(['cp', ...wordsOf(options), '--', ...[sources].flat(), dest], options)
}

function ignoreGone(error) {
    if (!(error instanceof NotFound)) throw error
}

export async function sessions(options = {}) {
    return (await objects(['list', '--json', ...wordsOf(options)], options)).map(infoOf)
}

export async function find(name, options = {}) {
    return (await object(['find', '--json', ...wordsOf(options), '--', name], options)).handle
}

export async function wait(handles, options = {}) {
    return (await objects(['wait', '--json', ...wordsOf(options), ...handles], options)).map(metOf)
}

export async function history(options = {}) {
    return objects(['history', '--json', ...(options.name ? [] : ['--all']), ...wordsOf(options)], options)
}

export async function events(options = {}) {
    return objects(['events', '--json', ...wordsOf(options)], options)
}

export function watch(options = {}) {
    return lines(['events', '--json', '--follow', ...wordsOf(options)], options.signal)
}

export async function kill(handles, options = {}) {
    const said = await objects(['kill', '--json', ...wordsOf(options), ...handles], options)
    return said.map(one => one.handle).filter(Boolean)
}

export async function gc(options = {}) {
    const said = await objects(['gc', '--json', ...wordsOf(options)], options)
    return said.map(one => one.handle).filter(Boolean)
}

export async function render(output, options = {}) {
    return (await text(['render', ...wordsOf(options)], { ...options, stdin: output })).toString()
}

// For Jest and Vitest: `expect.extend(matchers)`.
export const matchers = {
    toShow(screen, wanted) {
        const pass = typeof wanted === 'string' ? screen.text.includes(wanted) : wanted.test(screen.text)
        const message = () => `expected the screen ${pass ? 'not ' : ''}to show ${wanted}; it shows:\n${screen.text}`
        return { pass, message }
    },
}
