// E2B's clients for JavaScript, without a change to them, drive sandboxes of ringfence.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { Sandbox, CommandExitError, FilesystemEventType, NotFoundError, TimeoutError } from 'e2b'
import { Sandbox as Interpreter } from '@e2b/code-interpreter'

const version = (name) => {
  const main = createRequire(import.meta.url).resolve(name)
  return JSON.parse(readFileSync(`${main.slice(0, main.lastIndexOf(name) + name.length)}/package.json`)).version
}

// Waits until something is so.
const until = async (isSo) => {
  for (let tries = 0; !(await isSo()); tries++) {
    assert(tries < 250, 'it did not come to pass in time')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

const commands = async (box) => {
  const heard = []
  const done = await box.commands.run('echo out $MODE; echo err >&2', { onStdout: (text) => heard.push(text) })
  assert.deepEqual([done.stdout, done.stderr, done.exitCode, heard.join('')], ['out box\n', 'err\n', 0, 'out box\n'])
  await assert.rejects(box.commands.run('exit 7'), (error) => error instanceof CommandExitError && error.exitCode === 7)
  await assert.rejects(box.commands.run('sleep 20', { timeoutMs: 500 }), TimeoutError)
  const slow = await box.commands.run('sleep 30', { background: true })
  assert((await box.commands.list()).some((process) => process.pid === slow.pid))
  const again = await box.commands.connect(slow.pid)
  assert.equal(await box.commands.kill(slow.pid), true)
  await assert.rejects(again.wait(), CommandExitError)
  assert.equal(await box.commands.kill(999999), false)
  const count = await box.commands.run('wc -c', { background: true, stdin: true })
  await box.commands.sendStdin(count.pid, 'x'.repeat(1000))
  await box.commands.closeStdin(count.pid)
  assert.equal((await count.wait()).stdout.trim(), '1000')
}

const files = async (box) => {
  assert.equal((await box.files.write('a/b.txt', 'hello')).path, '/home/user/a/b.txt')
  assert.equal(await box.files.read('a/b.txt'), 'hello')
  const bytes = Uint8Array.from({ length: 256 }, (_, at) => at)
  await box.files.write('bytes', bytes.buffer)
  assert.deepEqual(await box.files.read('bytes', { format: 'bytes' }), bytes)
  await box.files.write([{ path: 'm/1', data: 'one' }, { path: 'm/2', data: 'two' }])
  assert.deepEqual((await box.files.list('m')).map((entry) => entry.name), ['1', '2'])
  assert.equal((await box.files.getInfo('m/1')).size, 3)
  assert.deepEqual([await box.files.makeDir('d'), await box.files.makeDir('d'), await box.files.exists('d/x')], [true, false, false])
  await assert.rejects(box.files.read('none'), NotFoundError)
  const seen = []
  const watch = await box.files.watchDir('d', (event) => seen.push(event))
  await box.files.write('d/f.txt', 'x')
  await until(() => seen.some((event) => event.type === FilesystemEventType.WRITE && event.name === 'f.txt'))
  await watch.stop()
  await box.files.rename('d/f.txt', 'd/g.txt')
  await box.files.remove('d')
  assert.equal(await box.files.exists('d'), false)
  assert.equal(await (await fetch(await box.downloadUrl('a/b.txt'))).text(), 'hello')
}

const terminal = async (box) => {
  let said = ''
  const pty = await box.pty.create({ cols: 80, rows: 24, onData: (bytes) => { said += new TextDecoder().decode(bytes) } })
  await box.pty.resize(pty.pid, { cols: 101, rows: 24 })
  await box.pty.sendInput(pty.pid, new TextEncoder().encode('tput cols; exit\n'))
  assert.equal((await pty.wait()).exitCode, 0)
  assert(said.includes('101\r\n'), said)
}

const life = async (box) => {
  const listed = await Sandbox.list({ query: { metadata: { mark: 'js' } } }).nextItems()
  assert(listed.some((one) => one.sandboxId === box.sandboxId))
  await box.setTimeout(30_000)
  assert.equal((await box.getInfo()).metadata.mark, 'js')
  assert.equal((await (await Sandbox.connect(box.sandboxId)).commands.run('echo again')).stdout, 'again\n')
  assert((await box.getMetrics()).length > 0)
  const command = await box.commands.run('sleep 60', { background: true })
  assert.equal(await box.kill(), true)
  await assert.rejects(command.wait())
  assert.equal(await box.isRunning(), false)
  assert.equal(await box.kill(), false)
}

const cells = async () => {
  const box = await Interpreter.create({ timeoutMs: 60_000 })
  try {
    const first = await box.runCode('x = 1\nprint("hi")\nx')
    assert.deepEqual([first.text, first.logs.stdout], ['1', ['hi\n']])
    assert.equal((await box.runCode('x + 1')).text, '2')
    assert.equal((await box.runCode('1/0')).error.name, 'ZeroDivisionError')
    assert.equal((await box.runCode('[1, 2].map((n) => n * 2).join()', { language: 'js' })).text, '2,4')
    const own = await box.createCodeContext({ language: 'python', cwd: '/tmp' })
    assert.equal((await box.runCode('import os; os.getcwd()', { context: own })).text, '/tmp')
    assert((await box.listCodeContexts()).some((context) => context.id === own.id))
    await box.restartCodeContext(own)
    await box.removeCodeContext(own)
  } finally {
    await box.kill()
  }
}

const box = await Sandbox.create('base', { timeoutMs: 60_000, metadata: { mark: 'js' }, envs: { MODE: 'box' } })
try {
  await Promise.all([commands(box), files(box), terminal(box), cells()])
  await life(box)
} finally {
  await box.kill()
}
console.log(`JavaScript, e2b ${version('e2b')} and @e2b/code-interpreter ${version('@e2b/code-interpreter')}: commands, standard input, files, watching, a terminal, life, cells, contexts`)
process.exit(0)
