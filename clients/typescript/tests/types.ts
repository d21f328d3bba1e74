// Looked at by `tsc --strict`, and not executed: what programs write has these types.
import { CommandFailed, Machine, NbsError, Session, sessions, type Chunk, type Exit } from '../nbs.js'

async function used(): Promise<number | null> {
    await using shell = await Session.create(['bash', '-l'], { size: [100, 30], env: { A: '1' } })
    const result = await shell.run('make', { timeout: '10m', signal: AbortSignal.timeout(1000) })
    result.check()
    const follow = shell.follow({ new: true })
    const next: IteratorResult<Chunk, Exit | undefined> = await follow.next()
    if (!next.done) next.value.text.trim()
    for await (const { text, lost } of follow) text.repeat(lost)
    await shell.key('C-c', { timeout: 3 })
    const box = new Machine('box')
    await using forward = await box.forward(8080, '0:db:5432', { reverse: true })
    const done = await box.exec(['ls', '-l'], { stdin: new Uint8Array(3), timeout: 5 })
    await box.put(['a', 'b'], 'c', { recursive: forward.port === done.check().exitCode })
    const [first] = await sessions({ waiting: true })
    // @ts-expect-error a wrong option is an error
    await shell.run('make', { timeuot: 5 })
    try {
        await shell.wait({ pattern: ['a', 'b'], fail: 'error' })
    } catch (error) {
        if (error instanceof CommandFailed) return error.result.exitCode
        if (error instanceof NbsError) return error.waited ?? null
    }
    return first ? first.exitCode : null
}

void used
