/**
 * Terminal sessions for programs.
 *
 *     import { Session } from 'nbs'
 *
 *     await using shell = await Session.create()
 *     (await shell.run('cd ~/project && make', { timeout: 600 })).check()
 *
 * `nbs help typescript` shows more.
 */

/** Seconds, or a text like `500ms` or `2m`. */
export type Time = number | string
/** Bytes, or a text like `64K`. */
export type Amount = number | string
export type Texts = string | readonly string[]
export type Terminal = 'prompt' | 'line' | 'secret' | 'raw' | 'running'

export interface CallOptions {
    /** Aborting it ends the call, not the session. */
    signal?: AbortSignal
}

/** A call failed. */
export class NbsError extends Error {
    constructor(message: string, fields?: { kind?: string; exit?: number; answer?: Record<string, unknown> })
    /** Its kind in one word. */
    readonly kind: string
    /** The exit code of the call. */
    readonly exit: number
    /** What the call printed before it failed. */
    readonly answer: Record<string, any>
    /** The session's handle, if the call printed it. */
    readonly session: string | undefined
    /** What the session printed until the call failed, if the call prints that. */
    readonly output: string | undefined
    /** The seconds after which the call timed out. */
    readonly waited: number | undefined
    /** What the terminal was doing. */
    readonly terminal: Terminal | undefined
    /** The last line that the session had printed. */
    readonly lastLine: string | undefined
}
/** There is no such session. */
export class NotFound extends NbsError {}
/** The call's timeout passed. What it waited for may still come. */
export class TimedOut extends NbsError {}
/** The arguments are wrong. Nothing was tried. */
export class BadArguments extends NbsError {}
/** The command was not run, or its exit code is unknown. */
export class NotRun extends NbsError {}
/** The connection to the session's machine is lost, or there was none. */
export class ConnectionLost extends NbsError {}
/** `check` found a command that failed, was interrupted or waits for input. */
export class CommandFailed extends NbsError {
    result: Result | Executed
}

export interface CreateOptions extends CallOptions {
    name?: string
    cwd?: string
    inheritCwd?: string
    /** Columns and rows, or a text like `80x24`. */
    size?: readonly [number, number] | string
    env?: Readonly<Record<string, string>>
    title?: string
    description?: string
    parent?: string
    timeout?: Time
    idleTimeout?: Time
    /** The session ends when that process ends. Default: this one; `null`: no process. */
    owner?: number | null
    maxLog?: Amount
    record?: boolean
    writeRoot?: Texts
    readRoot?: Texts
    noNetwork?: boolean
    connect?: number | readonly number[]
    clearEnv?: boolean
    hideEnv?: Texts
    memory?: Amount
    tasks?: number
    cpu?: number
    profile?: string
    noHelper?: boolean
    requireHelper?: boolean
    pager?: boolean
    /** The machine on which it is started. */
    machine?: string
}

export interface RunOptions extends CallOptions {
    timeout?: Time
    inputAfter?: Time
    noInput?: boolean
    strip?: boolean
    rendered?: boolean
    ansi?: boolean
    max?: Amount
}

export interface Conditions {
    pattern?: Texts
    regex?: Texts
    fail?: Texts
    complete?: boolean
    idle?: Time
    stable?: Time
    input?: boolean
    exit?: boolean
}

export interface AskOptions extends CallOptions, Conditions {
    paste?: boolean
    ansi?: boolean
    strip?: boolean
    max?: Amount
    timeout?: Time
}

export interface SendOptions extends CallOptions {
    /** Typed instead of the text, and only at a prompt for a secret. */
    secret?: string
    /** Whether Enter is typed after the text (default: true). */
    enter?: boolean
    paste?: boolean
    /** Gives a task to a program such as a coding agent; throws if the program did not take it. */
    submit?: boolean
    prompt?: string
    noSecret?: boolean
    timeout?: Time
}

export interface AnswerOptions extends TimeoutOptions {
    /** Throws if the question is not the one with this id. */
    questionId?: string
}

export interface KeyOptions extends CallOptions {
    /** Typed before the keys, without Enter. */
    text?: string
    noSecret?: boolean
    timeout?: Time
}

export interface TimeoutOptions extends CallOptions {
    timeout?: Time
}

export interface WaitOptions extends CallOptions, Conditions {
    waiting?: boolean
    done?: boolean
    offset?: number
    timeout?: Time
}

export interface WaitAllOptions extends WaitOptions {
    any?: boolean
    all?: boolean
    name?: string
    machine?: Texts
}

export interface WaitPatternOptions extends CallOptions {
    offset?: number
    new?: boolean
    timeout?: Time
}

export interface ReadOptions extends CallOptions {
    offset?: number
    last?: number
    /** Its output, by its number in `history`. */
    command?: number
    limit?: Amount
    max?: Amount
    strip?: boolean
    rendered?: boolean
    ansi?: boolean
}

export interface CastOptions extends CallOptions {
    /** Only that one, by its number in `history`. */
    command?: number
}

export interface HistoryOptions extends CallOptions {
    failed?: boolean
    /** Only commands that match, or whose directory does. */
    grep?: string
    /** Only commands that began at most so long ago. */
    since?: Time
    last?: number
}

export interface HistoryOfAllOptions extends HistoryOptions {
    name?: string
    machine?: Texts
}

export interface ReadNewOptions extends CallOptions {
    reader?: string
    max?: Amount
    strip?: boolean
    rendered?: boolean
    ansi?: boolean
}

export interface ScreenOptions extends CallOptions {
    scrollback?: number
}

export interface RestartOptions extends CallOptions {
    env?: Readonly<Record<string, string>>
    noHelper?: boolean
    requireHelper?: boolean
}

export interface KillOptions extends CallOptions {
    grace?: Time
    keep?: boolean
    ifExists?: boolean
}

export interface KillAllOptions extends KillOptions {
    all?: boolean
    name?: string
    machine?: Texts
}

export interface AttachOptions extends CallOptions {
    last?: number
    new?: boolean
}

export interface FindOptions extends CallOptions {
    machine?: Texts
}

export interface ListOptions extends CallOptions {
    waiting?: boolean
    name?: string
    machine?: Texts
}

export interface EventsOptions extends CallOptions {
    waiting?: boolean
    name?: string
    machine?: Texts
}

export interface GcOptions extends CallOptions {
    hours?: number
    ttl?: Time
    keep?: number
    machine?: Texts
}

export interface RenderOptions extends CallOptions {
    size?: readonly [number, number] | string
    ansi?: boolean
    svg?: boolean
    scrollback?: number
}

/** What became of a command. */
export class Result {
    private constructor()
    readonly session: string
    readonly output: string
    /** `null` while it waits for input. */
    readonly exitCode: number | null
    /** Seconds. */
    readonly duration: number
    readonly state: 'done' | 'input' | 'timeout' | 'interrupted' | 'ended'
    /** If it waits for input: the line that asks, or an empty text. */
    readonly question: string | null
    /** If it waits for input. */
    readonly terminal: Terminal | null
    /** If it is not done: what nbs says of it. */
    readonly message: string | null
    /** Whether bytes that are not UTF-8 were replaced. */
    readonly lossy: boolean
    readonly timedOut: boolean
    readonly ok: boolean
    /** Itself, if the command was executed and exited 0. Else throws `TimedOut` or `CommandFailed`. */
    check(): this
}

export interface Answer {
    session: string
    output: string
    condition: string
    detail: string
    terminal: Terminal | null
    question: string | null
    offset: number
    lossy: boolean
}

export interface Met {
    session: string
    condition: string
    detail: string
    offset: number
}

export interface Output {
    text: string
    /** Where it begins, in bytes. */
    offset: number
    nextOffset: number
    lossy: boolean
}

export interface Chunk {
    text: string
    offset: number
    /** The number of bytes right before it that are gone (`maxLog`). */
    lost: number
}

export interface Exit {
    session: string
    exitCode: number | null
    /** The name of the signal that killed its program. */
    signal: string | null
    endedBy: string | null
    timedOut: boolean
}

export interface SessionInfo {
    handle: string
    name: string | null
    command: string
    alive: boolean
    activity: 'waiting' | 'failed' | 'done' | 'working' | 'idle' | 'dead' | null
    terminal: Terminal | null
    question: string | null
    exitCode: number | null
    /** All that the call printed. */
    fields: Record<string, any>
}

/** What a person would see. */
export class Screen {
    private constructor()
    readonly session: string
    /** A line for each row, without colours. */
    readonly lines: readonly string[]
    /** The same with colours, as escape sequences. */
    readonly styled: readonly string[]
    /** From 1. */
    readonly cursor: { readonly row: number; readonly column: number; readonly visible: boolean } | null
    readonly size: { readonly columns: number; readonly rows: number } | null
    readonly title: string | null
    readonly alternate: boolean
    /** All lines, without blank ones at the end. */
    readonly text: string
    toString(): string
    /** A picture of it. */
    svg(): Promise<string>
}

/** A terminal session. `await using` ends it with all its processes. */
export class Session implements AsyncDisposable {
    private constructor()
    readonly handle: string
    /** Starts a session. A list of words is quoted. */
    static create(command?: Texts, options?: CreateOptions): Promise<Session>
    /** An existing session, by its handle or `@NAME`. `await using` does not end it. */
    static open(handle: string): Session
    /** The live session of that name. If there is none, starts it. `await using` does not end it. */
    static ensure(name: string, command?: Texts, options?: CreateOptions): Promise<Session>
    [Symbol.asyncDispose](): Promise<void>
    /** Runs a command in the session's shell. Throws `NotRun` if it was not run. */
    run(command: Texts, options?: RunOptions): Promise<Result>
    /** Resumes the command that the last `run` left, for example because it asked a question. */
    resume(options?: RunOptions): Promise<Result>
    /** Types a text and Enter into any program, and returns its answer. */
    ask(text: string, options?: AskOptions): Promise<Answer>
    /** Types a text and Enter. */
    send(text?: string | Uint8Array, options?: SendOptions): Promise<void>
    /** Types keys by their names: `C-c`, `Up`, `F5`. The last argument may be options. */
    key(...keys: (string | KeyOptions)[]): Promise<void>
    /** Types the answer to a question. Throws if the session asks none. */
    answer(text: string, options?: AnswerOptions): Promise<void>
    /** Ends the input of the session's program. */
    eof(options?: TimeoutOptions): Promise<void>
    /** Waits until one of the conditions is met, and returns which. */
    wait(options?: WaitOptions): Promise<Met>
    /** Waits until the next command ends, in order, and returns its exit code. */
    waitComplete(options?: TimeoutOptions): Promise<number>
    /** Waits until the output log contains a text. The echo of typed text matches, too. */
    waitPattern(pattern: string, options?: WaitPatternOptions): Promise<void>
    /** What a person would see now. */
    screen(options?: ScreenOptions): Promise<Screen>
    /** The session's output, or a part of it. */
    read(options?: ReadOptions): Promise<Output>
    /** The same, byte for byte. */
    readBytes(options?: Pick<ReadOptions, 'offset' | 'last' | 'limit' | 'signal'>): Promise<Buffer>
    /** The output since the last `readNew` of that reader. */
    readNew(options?: ReadNewOptions): Promise<Output>
    /** Whether the session is alive, and what its program is doing. */
    status(options?: CallOptions): Promise<SessionInfo>
    /** How the session ended. */
    exitCode(options?: CallOptions): Promise<Exit>
    /** The current directory of the session's foreground process. */
    pwd(options?: CallOptions): Promise<string>
    /** The text that a program copied last. Throws if there is none. */
    clipboard(options?: CallOptions): Promise<string>
    /** Changes the size of the session's terminal. */
    resize(columns: number, rows: number, options?: CallOptions): Promise<void>
    /** Makes `run` work in a nested shell: of ssh, su or a container. */
    integrate(options?: TimeoutOptions): Promise<void>
    /** Sets the activity that the session shows. */
    report(state: 'working' | 'waiting' | 'done' | 'failed' | 'idle' | 'clear', text?: string, options?: CallOptions): Promise<void>
    /** A session with `record` as an asciicast. */
    cast(options?: CastOptions): Promise<string>
    /** The commands that the session's shells have executed, oldest first: the fields of each. */
    history(options?: HistoryOptions): Promise<Record<string, any>[]>
    /** Starts the command of a dead session again, as a new session. */
    restart(options?: RestartOptions): Promise<Session>
    /** Ends the session with all its processes, and removes it. */
    kill(options?: KillOptions): Promise<void>
    /** The output as it arrives, from its start, until the session ends; then how it ended. */
    follow(options?: AttachOptions): AsyncGenerator<Chunk, Exit | undefined, undefined>
}

export interface ExecOptions extends CallOptions {
    /** All that the program reads. */
    stdin?: string | Uint8Array
    /** After this the program is ended with all that it has started, and `TimedOut` is thrown. */
    timeout?: Time
}

export interface CpOptions extends CallOptions {
    /** Copies directories with their contents. */
    recursive?: boolean
}

export interface ForwardOptions extends CallOptions {
    /** Listens on the machine, and connects from here. */
    reverse?: boolean
    /** How long to wait until all of them listen (60 seconds). */
    timeout?: Time
}

/** How a program on a machine ended, that had no session. */
export class Executed {
    private constructor()
    readonly machine: string
    /** Its standard output. */
    readonly output: Buffer
    /** Its standard error. */
    readonly errors: Buffer
    /** 128 + N if signal N ended it. */
    readonly exitCode: number
    /** Its standard output as text. */
    readonly text: string
    readonly ok: boolean
    /** Itself, if the program exited 0. Else throws `CommandFailed`. */
    check(): this
}

/**
 * Another machine, by the name that `nbs-ts machine add` gave it, or its host name for ssh. The
 * connection is made by the first call, and stays for the next ones. `Session.create` with
 * `machine` starts sessions there.
 */
export class Machine {
    constructor(name: string)
    readonly name: string
    /**
     * Runs a program without a session and without a terminal. A text is for `sh` there, in the home
     * directory; a list of words is quoted. Returns how it ended, also if it failed.
     */
    exec(command: Texts, options?: ExecOptions): Promise<Executed>
    /** Copies files from here to the machine. A relative `dest` is below the home directory there. */
    put(sources: Texts, dest?: string, options?: CpOptions): Promise<void>
    /** Copies files from the machine to here. Relative `sources` are below the home directory there. */
    get(sources: Texts, dest?: string, options?: CpOptions): Promise<void>
    /**
     * Makes a port of the machine reachable here: `8080`, or `[BIND:]PORT:HOST:PORT`; port 0 is any
     * that is free. When it returns, a connection is accepted.
     */
    forward(...forwards: (number | string | ForwardOptions)[]): Promise<Forward>
}

/** Ports that are reachable until `close`, the end of `await using`, or the end of the program. */
export class Forward {
    private constructor()
    /** Where each listens: `127.0.0.1:8080`; with `reverse` `devbox:8080`; or a path. */
    readonly listening: string[]
    /** The port of the first of them. */
    readonly port: number
    /** Ends it, with its connections. */
    close(): Promise<void>
    [Symbol.asyncDispose](): Promise<void>
}

/**
 * Copies files to, from or between machines. A file of a machine is `MACHINE:PATH`. Write `./a:b` for
 * a file here whose name has a colon.
 */
export function cp(sources: Texts, dest: string, options?: CpOptions): Promise<void>
/** The path of the nbs file: `$NBS_FILE`, else the one of this package, else the one on the PATH. */
export function file(): string
/** The sessions, oldest first. */
export function sessions(options?: ListOptions): Promise<SessionInfo[]>
/** The handle of the session of exactly that name. */
export function find(name: string, options?: FindOptions): Promise<string>
/** Waits until a condition is met, of each session, or with `any` of one. */
export function wait(handles: readonly string[], options?: WaitAllOptions): Promise<Met[]>
/** The commands that the shells of all sessions have executed, by their start. */
export function history(options?: HistoryOfAllOptions): Promise<Record<string, any>[]>
/** How sessions ended: the fields of their exit records. */
export function events(options?: Omit<EventsOptions, 'waiting'>): Promise<Record<string, any>[]>
/** Each session that ends from now on; with `waiting` also each that starts to wait for input. */
export function watch(options?: EventsOptions): AsyncGenerator<Record<string, any>, void, undefined>
/** Ends sessions with all their processes, removes them, and returns their handles. */
export function kill(handles: readonly string[], options?: KillAllOptions): Promise<string[]>
/** Removes sessions that have long been dead, and returns their handles. */
export function gc(options?: GcOptions): Promise<string[]>
/** What a terminal shows of recorded output, as text or as a picture. */
export function render(output: string | Uint8Array, options?: RenderOptions): Promise<string>

/** For Jest and Vitest: `expect.extend(matchers)`, then `expect(await shell.screen()).toShow('text')`. */
export const matchers: {
    toShow(screen: Screen, wanted: string | RegExp): { pass: boolean; message: () => string }
}
