// The worker of a JavaScript or TypeScript code context. Requests come on standard input as fields that end in a zero byte; frames go out
// among the output (cells/frame.rs says what a frame is). A cell is evaluated by V8's own REPL mode, through a debugger session inside this
// process that opens no port: `await` at the top, and `const`, `let` and `class` that stay and may be declared again.
'use strict';
(() => {
  const fs = require('node:fs'), util = require('node:util'), vm = require('node:vm'), path = require('node:path');
  const { createRequire, stripTypeScriptTypes } = require('node:module');
  const { Console } = require('node:console');
  const { Writable } = require('node:stream');
  const inspector = require('node:inspector');
  const language = process.argv[1], PIECE = 4000, LARGEST = 12 << 20;

  // What were standard input, output and error; the shell that executed node laid them here, and node lets no program inherit them.
  const requests = 3, stdout = 4, stderr = 5;

  // A descriptor that a cell closed is opened again, or else taken by /dev/null: no file of a cell's may get its number. The lowest that
  // is free is the one that is opened. Where the kernel does not let us open our own pipe again, programs print nothing from then on.
  let printed = 1;
  function giveDescriptors() {
    const all = [[0, '/dev/null', 'r'], [1, `/proc/self/fd/${stdout}`, 'w'], [2, `/proc/self/fd/${stderr}`, 'w']];
    for (const [fd, source, how] of all) {
      try { fs.fstatSync(fd); continue; } catch { /* closed */ }
      try { fs.openSync(source, how); } catch { fs.openSync('/dev/null', how); if (fd === 1) printed = stdout; }
    }
  }

  function writeAll(fd, bytes) {
    for (let at = 0; at < bytes.length;) {
      try { at += fs.writeSync(fd, bytes, at); } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      }
    }
  }

  let token = '';
  function send(frame, fd = stdout) {
    // Through bytes, since half a surrogate pair is no text outside JavaScript.
    const text = Buffer.from(JSON.stringify(frame, (_, value) => (typeof value === 'string' ? Buffer.from(value).toString() : value)));
    for (let at = 0; at < text.length; at += PIECE) {
      const more = at + PIECE < text.length ? '+' : '.';
      writeAll(fd, Buffer.concat([Buffer.from(`\x1e${token}${more}`), text.subarray(at, at + PIECE), Buffer.from('\n')]));
    }
  }

  // Standard output goes to the cell's descriptor, standard error as frames among it, so that the two keep their order.
  function stream(fd, write) {
    const made = new Writable({ decodeStrings: false, write(chunk, encoding, done) { try { write(chunk, encoding); done(); } catch (error) { done(error); } } });
    made.on('error', () => {});
    return Object.assign(made, { fd, isTTY: false });
  }
  const bytesOf = (chunk, encoding) => (typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
  const out = stream(1, (chunk, encoding) => writeAll(printed, bytesOf(chunk, encoding)));
  const err = stream(2, (chunk, encoding) => send({ type: 'stderr', text: bytesOf(chunk, encoding).toString() }));
  Object.defineProperty(process, 'stdout', { value: out, configurable: true });
  Object.defineProperty(process, 'stderr', { value: err, configurable: true });
  globalThis.console = new Console({ stdout: out, stderr: err });

  function sendResult(data, isMain) {
    const kept = Object.entries(data).filter(([name, value]) => {
      const fits = Buffer.byteLength(value) * 2 < LARGEST;
      if (!fits) send({ type: 'stderr', text: `[ringfence: ${name} of a result is left out: ${value.length} characters are too many]\n` });
      return fits;
    });
    if (kept.length > 0) send({ type: 'result', data: Object.fromEntries(kept), is_main_result: isMain });
  }

  function representations(value) {
    const data = { 'text/plain': typeof value === 'string' ? value : util.inspect(value) };
    if (value !== null && typeof value === 'object') {
      try { const text = JSON.stringify(value); if (text !== undefined) data['application/json'] = text; } catch { /* a cycle: text alone */ }
    }
    return data;
  }
  globalThis.display = (...values) => values.forEach((value) => sendResult(representations(value), false));

  class Exit extends Error { name = 'Exit'; }
  process.exit = (code) => { throw new Exit(`the cell asked for the end of the process, with exit status ${code ?? process.exitCode ?? 0}`); };
  process.reallyExit = process.exit;
  process.on('uncaughtException', (error) => err.write(`Uncaught ${util.inspect(error)}\n`));

  // What a cell's `import` becomes: V8's REPL mode has nobody who loads modules. A declaration becomes constants of what was loaded, on the
  // lines where it stood. Text, comments and names are passed over.
  const declared = String.raw`(?<=(?:^|[;}\n])[^\S\n]*)import(?:\s*([\w$*{][^'"\x60;()=]*?)\s*\bfrom)?\s*('[^'\\\n]*'|"[^"\\\n]*")(?:\s*with\s*(\{[^{}]*\}))?(?=\s*(?:[;\n]|\/\/|\/\*|$))`;
  const lexed = new RegExp(String.raw`\/\/.*|\/\*[^]*?\*\/|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|\x60(?:\\[^]|[^\x60\\])*\x60|${declared}|[\w$.]*import(?=\s*\()`, 'g');
  function rewritten(code) {
    return code.replace(lexed, (found, names, from, attributes) => {
      if (from === undefined) return found === 'import' ? '__import' : found;
      const loaded = `await __import(${from}${attributes ? `, { with: ${attributes} }` : ''})`;
      return names === undefined ? loaded : constants(names, loaded) + '\n'.repeat(found.split('\n').length - 1);
    });
  }

  // `a, { b as c }` and `a, * as d` as patterns of what was loaded.
  function constants(names, loaded) {
    const [, first, whole, listed] = /^([\w$]+)?\s*,?\s*(?:\*\s*as\s+([\w$]+)|\{([^]*)\})?$/.exec(names.replace(/\/\/.*|\/\*[^]*?\*\//g, '').trim()) ?? [];
    const parts = (listed ?? '').split(',').map((part) => part.trim()).filter(Boolean).map((part) => part.replace(/\s+as\s+/, ': '));
    if (first) parts.unshift(`default: ${first}`);
    if (!whole) return `const { ${parts.join(', ')} } = ${loaded}`;
    return `const ${whole} = ${loaded}${first ? `, { default: ${first} } = ${whole}` : ''}`;
  }
  function fromHere() { return createRequire(path.join(process.cwd(), 'cell.js')); }
  const hidden = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: false });
  hidden('__import', async (name, options) => {
    const bare = String(name).replace(/^npm:((?:@[^/@]+\/)?[^/@]+)(?:@[^/]*)?/, '$1'); // a package that is there, whatever its version
    const local = /^\.{0,2}\//.test(bare) ? require('node:url').pathToFileURL(path.resolve(bare)).href : bare;
    try { return await import(local, options); } catch (error) {
      if (error.code !== 'ERR_MODULE_NOT_FOUND' || local !== bare) throw error;
      return import(require('node:url').pathToFileURL(fromHere().resolve(bare)).href, options);
    }
  });

  const session = new inspector.Session();
  session.connect();
  let interrupt = null;
  process.on('SIGINT', () => interrupt?.());

  class Interrupted extends Error { name = 'KeyboardInterrupt'; }

  function post(method, parameters) {
    return new Promise((resolve, reject) => {
      hidden('__post', () => session.post(method, parameters, (error, found) => (error ? reject(new Interrupted('the cell was interrupted')) : resolve(found))));
      try { vm.runInThisContext('__post()', { breakOnSigint: true, filename: 'worker' }); } catch { reject(new Interrupted('the cell was interrupted')); }
    });
  }

  // The value itself, from what the session says about it.
  function real(remote) {
    if (remote.objectId === undefined) {
      return remote.unserializableValue === undefined ? remote.value : vm.runInThisContext(remote.unserializableValue);
    }
    let value;
    hidden('__take', (taken) => { value = taken; });
    session.post('Runtime.callFunctionOn', { functionDeclaration: 'function () { __take(this); }', objectId: remote.objectId });
    return value;
  }

  async function evaluate(code) {
    const interrupted = new Promise((_, reject) => { interrupt = () => reject(new Interrupted('the cell was interrupted')); });
    const asked = post('Runtime.evaluate', { expression: rewritten(code), replMode: true, awaitPromise: true, objectGroup: 'cell' });
    const { result, exceptionDetails } = await Promise.race([asked, interrupted]);
    if (exceptionDetails) throw exceptionDetails.exception ? real(exceptionDetails.exception) : new Error(exceptionDetails.text);
    return { value: real(result) };
  }

  // Whatever was thrown: asking a stranger's object what it is may throw as well.
  function sendError(error) {
    let said = { name: 'Error', value: 'what was thrown cannot be described', traceback: '' };
    try { said = described(error); } catch { /* as it stands above */ }
    send({ type: 'error', ...said });
  }

  // The stack as node prints it, without the worker's own calls.
  function described(error) {
    if (!util.types.isNativeError(error)) {
      const value = util.inspect(error);
      return { name: 'Error', value, traceback: `Uncaught ${value}` };
    }
    const lines = String(error.stack ?? error).split('\n');
    const end = lines.findIndex((line) => /Session\.post \(node:inspector|\[eval\]/.test(line));
    const traceback = (end < 0 ? lines : lines.slice(0, end)).join('\n');
    return { name: String(error.name), value: String(error.message), traceback };
  }

  function source(code) {
    if (language !== 'typescript') return code;
    if (!stripTypeScriptTypes) throw new Error(`TypeScript needs a node of version 22.13 or newer in the image, and this is ${process.version}; use javascript, or another image`);
    return stripTypeScriptTypes(code);
  }

  async function runCell(cwd, code) {
    try {
      if (cwd) process.chdir(cwd);
      hidden('require', fromHere());
      const { value } = await evaluate(source(code));
      if (value !== undefined) sendResult(representations(value), true);
    } catch (error) {
      sendError(error);
    } finally {
      interrupt = null;
      session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
    }
  }

  function setVariables(variables) {
    const before = variables.map(([name]) => [name, process.env[name]]);
    for (const [name, value] of variables) {
      if (value === undefined) delete process.env[name]; else process.env[name] = value;
    }
    return before;
  }

  async function* fields() {
    let unread = Buffer.alloc(0);
    for await (const chunk of fs.createReadStream('', { fd: requests })) {
      unread = Buffer.concat([unread, chunk]);
      for (let end; (end = unread.indexOf(0)) >= 0; unread = unread.subarray(end + 1)) yield unread.subarray(0, end).toString();
    }
  }

  async function serve() {
    const coming = fields();
    const field = async () => (await coming.next()).value;
    for (;;) {
      const next = await field();
      if (next === undefined) return;
      token = next;
      const cwd = await field(), variables = [];
      for (let left = Number(await field()); left > 0; left -= 1) variables.push((await field()).split(/=([^]*)/, 2));
      const code = await field();
      giveDescriptors();
      send({ type: 'started' });
      const before = setVariables(variables);
      await runCell(cwd, code);
      setVariables(before);
      send({ type: 'ended' }, stderr);
      send({ type: 'ended' });
    }
  }

  // At the end of the requests, and when a cell has broken the worker beneath it: the owner sees that the process is gone.
  const kill = process.kill.bind(process, process.pid, 'SIGKILL');
  serve().then(kill, kill);
})();
